"""The address at which a class joins, its QR code, and what the terminal shows of them. Nothing leaves the machine."""

import io
import socket

import segno

ANY = ("0.0.0.0", "::", "")  # to listen on: every address of the machine


def join_address(host: str, port: int, public: str | None = None) -> str:
    """The address that others type. host: that the page is served on. public: Gradio's link, if there is one."""
    return public or f"http://{own_address() if host in ANY else f'[{host}]' if ':' in host else host}:{port}/"


def own_address() -> str:
    """This machine's address in its network, 127.0.0.1 without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        try:
            found.connect(("192.0.2.1", 9))  # chooses a network card; nothing is sent
            return found.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def qr_code(text: str) -> str:
    """A QR code as the address of a picture."""
    return segno.make_qr(text).svg_data_uri(light="#fff")


def welcome(address: str, teacher: str) -> str:
    """What the terminal shows once: the QR code, the address for all, and the teacher's."""
    code = io.StringIO()
    segno.make_qr(address).terminal(code, border=2, compact=True)
    return (
        f"{code.getvalue()}\nJoin the class:  {address}\nFor the teacher: {teacher}\n(Keep the second one to yourself.)"
    )
