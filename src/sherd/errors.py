"""The one exception a user ever sees."""

from __future__ import annotations


class SherdError(Exception):
    """Bad input. The message is one line: the file or value, what is wrong, what would be right.

    The command line prints it and exits with code 2; a traceback is never shown for it.
    """
