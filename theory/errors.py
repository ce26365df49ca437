"""The one kind of error that a user's input can cause."""


class InvalidInput(ValueError):
    """Bad input: its message is one line that says what is wrong and how to mend it.

    The command lines print the message and leave with exit code 2.
    """
