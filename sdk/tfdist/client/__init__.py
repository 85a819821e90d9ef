"""The client of TFDist: `pip install tfdist-cli`, then `tfdist.Client()`."""
