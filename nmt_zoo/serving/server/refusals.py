"""Answers of the server other than 200."""

import tensorflow as tf


class Refusal(Exception):
    """A request that is not answered."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        # It may repeat half of a surrogate pair of the request, which UTF-8 does not have.
        message = message.encode(errors="backslashreplace").decode()
        super().__init__(message)
        self.status = status  # Of HTTP.
        self.message = message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def not_an_answer(error: tf.errors.OpError) -> Refusal:
    """Returns the `Refusal` for an error of TensorFlow, with the status of TensorFlow Serving."""
    name = type(error).__name__.removesuffix("Error")
    return Refusal(_STATUS.get(name, 500), _reason(error))


# Error of TensorFlow -> HTTP status, where it is not 500.
_STATUS = {
    "InvalidArgument": 400,
    "FailedPrecondition": 400,
    "OutOfRange": 400,
    "NotFound": 404,
    "ResourceExhausted": 429,
    "Unimplemented": 501,
    "Unavailable": 503,
    "DeadlineExceeded": 504,
}


def _reason(error):
    """Returns the line of an error that gives the reason, without the places in the graph."""
    lines = [line.strip() for line in error.message.splitlines()]
    reasons = [line for line in lines if line and not line.startswith(("Graph execution", "[["))]
    for line in reasons:
        _, found, message = line.partition("assertion failed: [")
        if found:
            return message.removesuffix("]")
    return reasons[0] if reasons else type(error).__name__
