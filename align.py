"""Links the words of a text with the words of its translation. See command_line/align.py."""

from nmt_zoo.command_line.align import command

if __name__ == "__main__":
    command()
