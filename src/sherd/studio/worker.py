"""A process that does the work: requests come as JSON lines, events and answers go back as such.

``python -m sherd.studio.worker ROLE``. The server kills it when a job is to end at once. When the
server itself is gone, the input ends, and so does the process: nothing is left behind.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from pathlib import Path
from typing import IO, Any

from ..errors import SherdError

DESK_MEMORY = 3 * 2**30
"""Address space of the process that reads uploads: a file that wants more is refused."""


def main(argv: list[str]) -> None:
    """Serve requests until the input ends."""
    # Libraries that print must not garble the answers: those go to a copy of the real output.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    if argv[1:] == ["desk"]:
        _limit_memory(DESK_MEMORY)
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    while True:
        request = requests.get()
        try:
            answer = {"done": _answer(request, out)}
        except SherdError as e:
            answer = {"error": _plain(str(e), request)}
        except MemoryError:
            answer = {"error": "There is not enough memory for this."}
        except Exception:
            traceback.print_exc()
            answer = {"error": "Something went wrong inside the studio; its log says what."}
        _say(out, answer)


def _listen(requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        requests.put(json.loads(line))
    os._exit(0)


def _say(out: IO[str], value: dict[str, Any]) -> None:
    try:
        out.write(json.dumps(value) + "\n")
    except OSError:  # nobody listens any more
        os._exit(0)


def _plain(message: str, request: dict[str, Any]) -> str:
    """A message without the place where the studio keeps its files."""
    if folder := request.get("folder"):
        message = message.replace(f"{folder}{os.sep}", "").replace(f"{folder}: ", "")
    return " ".join(message.split())


def _answer(request: dict[str, Any], out: IO[str]) -> Any:
    from . import engine

    task = request.pop("task")
    folder = Path(request.get("folder", "."))
    if task == "warm":
        return engine.warm(request["system"])
    if task == "sample":
        from .sample import write_sample

        return write_sample(request["name"], folder)
    if task == "take in":
        from ..data.zips import Limits
        from .intake import take_in

        return take_in(folder, Path(request["sheet"]), Limits(**request["limits"]))
    words = {k: v for k, v in request.items() if k not in ("folder", "to", "what")}
    if task == "make":
        return engine.make(request["what"], folder, Path(request["to"]), **words)
    if task == "solve":
        return engine.solve(folder, **words, send=lambda event: _say(out, event))
    raise SherdError(f"task: {task!r} is unknown")


def _limit_memory(limit: int) -> None:
    if sys.platform != "win32":
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


if __name__ == "__main__":
    main(sys.argv)
