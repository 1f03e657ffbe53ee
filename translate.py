"""Translates text with a trained model. See --help, and nmt_zoo/command_line/translate.py."""

from nmt_zoo.command_line.translate import command

if __name__ == "__main__":
    command()
