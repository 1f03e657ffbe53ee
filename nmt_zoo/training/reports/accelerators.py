"""What accelerators can do at most, by the data sheets of their makers."""

import re
from typing import NamedTuple

from nmt_zoo.common.errors import UserError
from nmt_zoo.training.reports.work import ADAM, Operation

HERE = "here"  # The processor of this machine, in place of an accelerator.


class Accelerator(NamedTuple):
    """Published peaks of an accelerator, for matrices whose numbers all count."""

    floats: dict[str, float]  # precision -> floating-point operations a second, of products
    moved: float  # bytes a second of its memory
    memory: float  # bytes
    link: float  # bytes a second that it sends to other accelerators beside it

    def seconds(self, operation: Operation) -> tuple[float, float, float]:
        """Returns seconds of an operation, two of which are 0: by what bounds it.

        (arithmetic, memory, memory that XLA spares by fusing the operation with a product)
        """
        memory = operation.moved / self.moved
        if not operation.product:
            return (0.0, memory, 0.0) if operation.kind == ADAM else (0.0, 0.0, memory)
        arithmetic = operation.floats / self.floats[operation.precision]
        return (arithmetic, 0.0, 0.0) if arithmetic > memory else (0.0, memory, 0.0)


def _halves(floats):
    return {"bfloat16": floats, "float16": floats}


# TensorFlow rounds the factors of float32 products to TF32 on an A100, H100 and L4, and to bfloat16
# on TPUs. Links: half of what the data sheets give for both directions together.
ACCELERATORS = {
    # NVIDIA Tesla P100 data sheet (SXM2), 2016: no bfloat16.
    "p100": Accelerator({"float32": 10.6e12, "float16": 21.2e12}, 732e9, 16e9, 80e9),
    # NVIDIA A100 80GB data sheet (SXM), 2021.
    "a100": Accelerator({"float32": 156e12, **_halves(312e12)}, 2039e9, 80e9, 300e9),
    # NVIDIA H100 data sheet (SXM), 2023; its figures are for sparse matrices, twice these.
    "h100": Accelerator({"float32": 494.7e12, **_halves(989.4e12)}, 3350e9, 80e9, 450e9),
    # NVIDIA L4 data sheet, 2023; likewise. Linked by PCIe 4.0.
    "l4": Accelerator({"float32": 60e12, **_halves(121e12)}, 300e9, 24e9, 32e9),
    # cloud.google.com/tpu/docs/v4, and .../v5e.
    "tpu_v4": Accelerator({"float32": 275e12, "bfloat16": 275e12}, 1200e9, 32e9, 300e9),
    "tpu_v5e": Accelerator({"float32": 197e12, "bfloat16": 197e12}, 819e9, 16e9, 200e9),
}


def parse(name: str) -> tuple[str, int]:
    """Returns (name of a device, number) of a value of --device such as "h100" or "h100x8".

    Raises `UserError` at another value.
    """
    device, number = re.fullmatch(r"(.*?)(?:x([1-9]\d{0,4}))?", name).groups()
    if device not in (HERE, *ACCELERATORS) or (device == HERE and number):
        raise UserError(
            f"--device={name}: expected {HERE}, or one of {', '.join(ACCELERATORS)}; several of "
            "the same with their number, such as h100x8"
        )
    return device, int(number or 1)
