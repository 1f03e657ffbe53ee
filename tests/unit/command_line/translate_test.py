"""What the earlier translations of an interrupted run depend on."""

from nmt_zoo.command_line.translate import Arguments, what_translates
from nmt_zoo.common import own_code


def test_another_language_or_another_file_of_rules_begins_anew(tmp_path, monkeypatch):
    rules = tmp_path / "rules.py"
    rules.write_text("one")
    monkeypatch.setattr(own_code, "_LOADED", [str(rules)])  # As --rules=rules.py:Name does.

    def facts(**flags):
        options = {"rules": "Name"}
        return what_translates(Arguments(**{"target_language": "de", "options": options, **flags}))

    before = facts()
    assert facts() == before != facts(target_language="fr")
    assert facts(source_language="en") != before
    rules.write_text("other")
    assert facts() != before
