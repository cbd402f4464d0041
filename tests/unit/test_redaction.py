"""Secrets that were seen are taken out of every text."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import redaction
from penstock.errors import PenstockError
from penstock.options import Secret
from penstock.redaction import forget, java_pattern, redact, redact_values, remember

AWKWARD = "a\"b\\c;d'e/f g{h}$i\u00fcj\nk"


def test_a_secret_is_hidden_however_it_is_written():
    remember(AWKWARD)

    for text in (AWKWARD, json.dumps(AWKWARD), json.dumps(AWKWARD, ensure_ascii=False), repr(AWKWARD)):
        assert redact(f"before {text} after").replace('"', "").replace("'", "") == "before *** after"


def test_a_short_secret_is_hidden_only_where_it_stands_alone():
    remember("no")

    assert redact("nothing is 'no'") == "nothing is '***'"


def test_nothing_is_hidden_before_anything_is_secret():
    assert redact("a 'b'") == "a 'b'"
    remember("  ")
    assert redact("a  b") == "a  b"


def test_one_line_of_a_key_is_as_secret_as_the_key():
    remember("-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqG\nSM49AgEGCCqGSM49\n-----END PRIVATE KEY-----\n")

    assert redact("cannot parse 'SM49AgEGCCqGSM49'") == "cannot parse '***'"
    assert redact("-----BEGIN PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----"


def test_the_longer_of_two_secrets_wins():
    remember("hunter2")
    remember("hunter2-and-more")

    assert redact("hunter2-and-more, hunter2") == "***, ***"


def test_numbers_stay_numbers_in_what_becomes_json():
    remember("9092")

    assert redact_values({"port": 9092, "at": ["host:9092", {"9092": None}]}) == {
        "port": 9092,
        "at": ["host:***", {"***": None}],
    }


def test_our_errors_never_tell():
    error = PenstockError(f"refused: {Secret('hunter2')!s}")

    assert str(error) == "refused: ***"
    assert str(error.add_place("a.yaml:1")) == "a.yaml:1: refused: ***"


def test_records_of_logging_are_without_secrets(caplog):
    before = logging.getLogRecordFactory()
    remember("hunter2")
    logging.setLogRecordFactory(redaction._Record)
    try:
        try:
            raise ValueError("the password is hunter2")
        except ValueError:
            logging.getLogger("x").exception("login of %s with %s", "me", "hunter2")
    finally:
        logging.setLogRecordFactory(before)

    # Whoever formats the records: Spark's own formatter may sit in the log of the tests.
    said = "".join(logging.Formatter().format(record) for record in caplog.records)
    assert "login of me with ***" in said
    assert "ValueError: the password is ***" in said
    assert "hunter2" not in said + caplog.text


def test_an_uncaught_error_is_printed_without_secrets():
    code = "from penstock import redaction as r; r.install_hooks(); r.remember('hunter'+'2')"
    code += "; raise ValueError('hunter'+'2')"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert ran.returncode == 1
    assert ran.stderr.endswith("ValueError: ***\n")


@given(st.text(min_size=4, max_size=40).filter(str.strip))
def test_what_javas_log_is_told_is_letters_digits_bars_and_backslashes_and_finds_the_secret(secret):
    forget()
    remember(secret)

    pattern = java_pattern()

    assert re.fullmatch(r"[A-Za-z0-9\\|]*", pattern)
    if not any(ord(char) > 0xFFFF for char in secret):  # Python has no surrogate pairs, Java has
        assert re.sub(pattern, "***", f"<{secret}>") == "<***>"


@pytest.mark.parametrize("size", [60_000, 132_000])
def test_what_javas_log_is_told_fits_into_a_variable(size):
    remember("ab+/" * (size // 4))
    remember("hunter2")

    assert len(java_pattern()) < 110_000
    assert "hunter2" in java_pattern()
