"""The address at which a class joins, its QR code, and what the terminal shows of them. Nothing leaves the machine."""

import contextlib
import io
import socket
from typing import Any

import segno
from segno.utils import matrix_to_lines

ANY = ("0.0.0.0", "::", "")  # to listen on: every address of the machine
QUIET_ZONE = 4  # modules around a code


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


def qr_code(text: str) -> dict[str, Any]:
    """A QR code as a path in an SVG: {"size": of its square, "path"}."""
    code = segno.make_qr(text)
    lines = matrix_to_lines(code.matrix, QUIET_ZONE, QUIET_ZONE)
    path = "".join(f"M{x} {y}h{end - x}v1h{x - end}z" for (x, y), (end, _) in lines)
    return {"size": code.symbol_size(border=QUIET_ZONE)[0], "path": path}


def welcome(address: str, teacher: str) -> str:
    """What the terminal shows once: the QR code, the address for all, and the teacher's."""
    code = io.StringIO()
    segno.make_qr(address).terminal(code, border=2, compact=True)
    return (
        f"{code.getvalue()}\nJoin the class:  {address}\nFor the teacher: {teacher}\n(Keep the second one to yourself.)"
    )


def show(text: str) -> None:
    """Print a text; a terminal without its characters gets it without the code."""
    with contextlib.suppress(UnicodeEncodeError):
        print(text, flush=True)
        return
    print(*text.splitlines()[-3:], sep="\n", flush=True)
