"""Exports a trained model. See --help, and nmt_zoo/command_line/export.py."""

from nmt_zoo.command_line.export import command

if __name__ == "__main__":
    command()
