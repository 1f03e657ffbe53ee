"""Imports TensorFlow without its greetings. To be imported before anything else that imports it.

TensorFlow writes several lines about oneDNN and absent GPUs to file descriptor 2 while it is
imported, before any setting of its own counts. What goes wrong still raises as usual.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
_stderr = os.dup(2)
_nowhere = os.open(os.devnull, os.O_WRONLY)
os.dup2(_nowhere, 2)
try:
    import tensorflow as tf

    tf.constant(0)  # The first op starts the run-time, which greets once more.
    tf.get_logger().setLevel("WARNING")
finally:
    os.dup2(_stderr, 2)
    os.close(_stderr)
    os.close(_nowhere)
