"""The MoE config workshop: names, shapes, lookup, verification, repair and installation.

It knows SGLang's Triton config files and nothing of diagnosis. Triton is imported only by
`kernel`, `lift` and `compiler`, inside the process that compiles.
"""

from __future__ import annotations
