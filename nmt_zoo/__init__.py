"""Neural machine translation from IBM Model 1 to the Transformer, in TensorFlow and Keras.

In a clone, the rooms (`models`, `data_pipeline`, ...) lie beside this folder; in an installed
package they lie inside it. Both are `nmt_zoo.models`, `nmt_zoo.data_pipeline`, and so on.
"""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
if not (_HERE / "models").exists():
    __path__.append(str(_HERE.parent))
