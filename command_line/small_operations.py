"""Settings under which TensorFlow runs many small operations fast, as a search needs them.

Import this before `command_line.quiet`: TensorFlow reads them when it is imported.
"""

import os
import re
import sys

# oneDNN prepares each matrix product for its sizes, which change at every step of a search: it is
# slower than TensorFlow's own product unless matrices are large, except in bfloat16, for which
# TensorFlow has no fast product of its own.
if not re.search("(^| )--?precision[= ]bfloat16( |$)", " ".join(sys.argv)):
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
