"""Names of TensorFlow that are not public; a minor version may move them.

* `context`: `function_executor_type` chooses the executor of small graphs, and `context()` sets how
  long a worker may be silent; nothing public does.
* `SavedModelLoader`: loads a SavedModel into a session and, unlike `tf.compat.v1.saved_model.load`,
  prints no advice to use the functions of TensorFlow 2.

`training.ways.gradient.adam` and `training.devices.replicated_update` override private methods of
the optimisers of Keras, where these are explained.
"""

from tensorflow.python.eager import context
from tensorflow.python.saved_model.loader_impl import SavedModelLoader

__all__ = ["SavedModelLoader", "context"]
