"""Options that several commands share."""

import argparse


def add_output(parser: argparse.ArgumentParser, *formats: str) -> None:
    """Add the option `-o`; the first format is the default."""
    text = f"format of the result: {', '.join(formats)} (default: {formats[0]})"
    parser.add_argument("-o", "--output", choices=formats, default=formats[0], metavar="FORMAT", help=text)


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add the arguments `FILE...`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON; a folder; - for standard input")
