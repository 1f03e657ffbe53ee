"""Draws the attention of a model. See --help, and nmt_zoo/command_line/visualize_attention.py."""

from nmt_zoo.command_line.visualize_attention import command

if __name__ == "__main__":
    command()
