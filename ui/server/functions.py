"""Functions that the scripts of a view call, with the visitor's token first."""

import inspect
from collections.abc import Callable
from typing import Any

from bert_core.errors import InputError
from ui.handlers import MALFORMED, on_error
from ui.server.workspace import Workspace
from ui.server.workspaces import Workspaces


def functions(
    workspaces: Workspaces, *work: Callable[..., Any], error: str = "error", known: bool = True
) -> list[Callable[[Any], Any]]:
    """`server_functions` of a view: each calls a function of `work` with the visitor's workspace and the JSON values
    that the page sends, once they are of the types that the function names.

    error: the key under which an error's sentence is returned. known: refuse an unknown token; else its visitor has an
    empty workspace. A page that is older than the server asks on with such a token, until it gets another.
    """

    def serve(function: Callable[..., Any]) -> Callable[[Any], Any]:
        _, *parameters = inspect.signature(function, eval_str=True).parameters.values()
        needed = sum(each.default is each.empty for each in parameters)

        @on_error(lambda sentence: {error: sentence})
        def answer(arguments: Any) -> Any:
            token, *values = arguments if isinstance(arguments, list) and arguments else [arguments]
            is_whole = needed <= len(values) <= len(parameters)
            if not (is_whole and all(isinstance(value, each.annotation) for value, each in zip(values, parameters))):
                raise InputError(MALFORMED)
            space = workspaces.find(token) if known else workspaces.lookup(token) or Workspace("")
            return function(space, *values)

        answer.__name__ = function.__name__  # Gradio would read the signature of a wrapped function
        return answer

    return [serve(each) for each in work]
