"""Balcony: train a small BERT in the browser, watch it learn, look inside it.

balcony                          opens http://127.0.0.1:7860; python app.py does the same without an installation
balcony --port 8000 --host 0.0.0.0 --no-browser
balcony --class                  for a room of people
balcony train --help             a command of bert_core; so are exam, finetune, predict and evaluate
"""

import argparse
import errno
import gc
import http.server
import importlib.util
import logging
import os
import re
import secrets
import signal
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Any, NoReturn

END_SECONDS = 1.0  # for all threads to end after an interrupt
PORTS = range(7860, 7960)  # the first free one
_HERE = Path(__file__).resolve().parent.parent
_ASSETS = "assets/waiting-page.html"  # in the repository; an installed package has it in bert_core
WAITING_PAGE = next(path for path in (_HERE / "bert_core" / _ASSETS, _HERE / _ASSETS) if path.exists())
NEEDS = "The page needs more packages ({}). Install Balcony with its page: in its folder, pip install .[page]"


def main() -> int:
    """Run a command of `bert_core`, or show a page that waits, import what takes seconds, and serve the app until
    Ctrl-C."""
    if not sys.argv[1:2] or sys.argv[1].startswith("-"):
        return serve_page()
    from bert_core.__main__ import main as run

    return run()


def serve_page() -> NoReturn:
    """Serve the app with the options of the command line, and end the program after it."""
    options = arguments()
    if options.version:
        from bert_core.config import VERSION

        print(f"balcony {VERSION}")
        sys.exit()
    if missing := [name for name in ("gradio", "plotly", "segno") if importlib.util.find_spec(name) is None]:
        sys.exit(NEEDS.format(", ".join(missing)))
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    waiting = None if options.is_space else waiting_page(options)  # a Space has a page of its own
    gc.disable()  # until the app is served: the collector would visit the growing modules again and again
    serve(options, waiting)


def arguments() -> argparse.Namespace:
    """Parse the command line, and choose what it leaves open."""
    about = "Train a small BERT in the browser, watch it learn, look inside it."
    more = "balcony COMMAND --help: train, exam, finetune, predict and evaluate work without the page."
    parser = argparse.ArgumentParser(description=about, epilog=more)
    parser.add_argument("--version", action="store_true", help="print the version and end")
    port = os.environ.get("GRADIO_SERVER_PORT")
    parser.add_argument("--port", type=port_number, default=port, help="port of the page (7860, or the next free one)")
    parser.add_argument("--host", type=named, help="address to listen on (127.0.0.1; 0.0.0.0 for other machines)")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page in a browser")
    parser.add_argument(
        "--limits",
        choices=("local", "public"),
        default=None,
        help="what each visitor may ask for: local is generous, public is for strangers (the default with --share)",
    )
    parser.add_argument(
        "--keep",
        type=named,
        metavar="DIR",
        help="save the runs of all pages in this folder; they can be continued after a restart",
    )
    parser.add_argument("--lesson", type=named, metavar="FILE", help="begin with the lesson in this file")
    parser.add_argument(
        "--class",
        dest="is_class",
        action="store_true",
        help="for a room of people: an address to join, a board and a teacher (with --host 0.0.0.0 --limits public)",
    )
    parser.add_argument(
        "--root-path",
        type=root_path,
        metavar="PATH",
        help="where a proxy serves the page: /course/bert, or its whole address, https://school.example/course/bert",
    )
    parser.add_argument(
        "--allow-host",
        type=named,
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which a proxy on this machine serves the page; may be given several times",
    )
    parser.add_argument("--share", action="store_true", help="ask Gradio for a public link to this machine")
    options = parser.parse_args()
    options.is_space = "SPACE_ID" in os.environ
    is_open = options.is_space or (options.is_class and not options.share)
    options.host = options.host or ("0.0.0.0" if is_open else "127.0.0.1")
    options.limits = options.limits or ("public" if is_open or options.share or options.allow_host else "local")
    options.teacher = secrets.token_urlsafe(16) if options.is_class else None
    options.opens_browser = not (options.no_browser or options.is_space)
    return options


def port_number(text: str) -> int:
    """A port that a server can have."""
    if not text.isdecimal() or not 1 <= int(text[:9]) <= 65535:
        raise argparse.ArgumentTypeError(f"the port is {text!r}; it must be a number from 1 to 65535.")
    return int(text)


def root_path(text: str) -> str:
    """The path at which a proxy serves the page, or its whole address, without a slash at the end."""
    if not re.fullmatch(r"(https?://[^/?#\s]+)?(/[^/?#\s]+)*/?", text) or text in ("", "/"):
        raise argparse.ArgumentTypeError(f"the path is {text!r}; write it as /course/bert or https://host/course/bert.")
    return text.rstrip("/")


def named(text: str) -> str:
    """The name of a host, a file or a folder."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty; give one, or leave the option out.")
    return text


def waiting_page(options: argparse.Namespace) -> http.server.HTTPServer:
    """Serve the waiting page, and open it in a browser. Ends the program where no port is free."""
    try:
        waiting = serve_waiting_page(options.host, options.port)
    except OSError as error:
        port = f"port {options.port}" if options.port else f"any port from {PORTS[0]} to {PORTS[-1]}"
        sys.exit(f"{options.host} cannot be served on {port} ({error.strerror}); choose another --port or --host.")
    if options.opens_browser and not options.share:
        address = f"http://localhost:{waiting.server_port}/" + (
            f"#teacher={options.teacher}" if options.teacher else ""
        )
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()  # some browsers block it
        options.opens_browser = False
    return waiting


def serve_waiting_page(host: str, port: int | None) -> http.server.HTTPServer:
    """Serve the waiting page at this port, by default the first free one of PORTS. Raises OSError if there is none."""
    ports = PORTS if port is None else [port]
    for each in ports:
        try:
            server = WaitingServer((host, each), WaitingPage)
            break
        except OSError as error:  # Windows denies access to a port that is reserved
            if error.errno not in (errno.EADDRINUSE, errno.EACCES) or each == ports[-1]:
                raise
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


class WaitingServer(http.server.ThreadingHTTPServer):
    """Of an address that no other program has. Windows lets two programs share one that may be used again."""

    allow_reuse_address = os.name == "posix"

    def handle_error(self, *of: Any) -> None:
        """Tell of an error, but not that a browser has gone away."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*of)


class WaitingPage(http.server.BaseHTTPRequestHandler):
    """The page while PyTorch and Gradio are imported. Its script opens the app once that answers."""

    timeout = 5  # seconds

    def do_GET(self) -> None:
        page = WAITING_PAGE.read_bytes()
        self.send_response(http.HTTPStatus.SERVICE_UNAVAILABLE)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *arguments: object) -> None:
        """Keep the log free of visits."""


def serve(options: argparse.Namespace, waiting: http.server.HTTPServer | None) -> NoReturn:
    """Serve the app in place of the waiting page, and end the program after it."""
    # Imported here, so that the waiting page, --help and a mistyped option need not wait for torch.
    import balcony.app
    from bert_core.__main__ import ended_by, write_utf8
    from bert_core.config import LOCAL, PUBLIC
    from bert_core.errors import BertCoreError
    from bert_core.runs.service import TrainingService

    write_utf8()
    if options.host not in balcony.app.LOOPBACK and not options.is_space:
        logging.warning("Other machines can open this page at %s; the connection is not encrypted.", options.host)
    service, status = TrainingService(limits=PUBLIC if options.limits == "public" else LOCAL), 0
    if waiting:
        waiting.shutdown()
        waiting.server_close()
    if waiting and not options.share:  # with a link, Gradio prints the addresses
        host = f"[{options.host}]" if ":" in options.host else options.host
        print(f"* Running on http://{host}:{waiting.server_port}; with --share also on a public link.", flush=True)
    try:
        with ended_by(signal.default_int_handler):
            balcony.launch(
                service,
                keep=Path(options.keep) if options.keep else None,
                lesson=Path(options.lesson) if options.lesson else None,
                teacher=options.teacher,
                allowed=options.allow_host,
                root_path=options.root_path,
                server_name=options.host,
                server_port=waiting.server_port if waiting else options.port,
                inbrowser=options.opens_browser,
                share=options.share,
                quiet=not (options.share or options.is_space),
            )
    except KeyboardInterrupt:
        pass
    except BertCoreError as error:
        print(error, file=sys.stderr, flush=True)
        status = 1
    finally:
        end = threading.Timer(END_SECONDS, os._exit, [status])
        end.daemon = True
        end.start()
        service.close()
    sys.stdout.flush()
    os._exit(status)  # the interpreter's own end aborts a thread that is in the middle of a step


if __name__ == "__main__":
    sys.exit(main())
