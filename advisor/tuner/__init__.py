"""The MoE kernel tuner: space, search, measuring, journal, pools and the files that come out."""
