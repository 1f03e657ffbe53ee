"""Serves a trained model over HTTP. See --help, and nmt_zoo/command_line/serve.py."""

from nmt_zoo.command_line.serve import command

if __name__ == "__main__":
    command()
