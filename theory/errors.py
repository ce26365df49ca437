"""What can go wrong: bad input, and a law that has no closed form."""


class InvalidInput(ValueError):
    """Bad input: its message is one line that says what is wrong and how to mend it.

    The command lines print the message and leave with exit code 2.
    """


class NoClosedForm(Exception):
    """The recursion has no closed form in this algebra; the numeric recursion still holds."""
