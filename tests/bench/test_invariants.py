"""A run of the benchmark that gets a wrong result has no figure, even if every message has arrived."""

from __future__ import annotations

from itertools import islice
from unittest.mock import Mock

import pytest

from bench import barbers, dice, otp
from bench.case import Setting, WrongResultError
from bench.cases import bank, barber, logistic, philosophers, smokers
from bench.stages import raw

pytestmark = pytest.mark.once


def test_the_dice_fall_as_park_and_miller_say() -> None:
    assert list(islice(dice.draws(1), 3)) == [16_807, 282_475_249, 1_622_650_073]
    assert next(islice(dice.draws(1), 9_999, None)) == 1_043_618_065
    assert dice.work(10_000) == 1_043_618_065


# --- philosophers -----------------------------------------------------------------------------------------------------


def test_a_philosopher_who_ate_less_than_the_others_gives_no_figure() -> None:
    seats = philosophers.PHILOSOPHERS
    books = philosophers.Books(3, meals=[3] * seats, denials=[1] * seats, asked=4 * seats)
    assert books.eaten() == 60
    assert books.details() == {"denials": 20.0}
    books.meals[0], books.meals[1] = 2, 4
    with pytest.raises(WrongResultError, match="each was to eat 3 times; they have eaten 2 to 4 times"):
        books.eaten()


# --- the barber -------------------------------------------------------------------------------------------------------


def test_a_customer_with_two_haircuts_gives_no_figure() -> None:
    books = barbers.Books(10, factory=20, room=22, barber=12, slept=1)
    books.told, books.cut = [2] + [3] * 9, [1] * 10
    assert (books.haircuts(), books.chairs) == (10, 2)
    books.cut[0], books.cut[1] = 0, 2
    with pytest.raises(WrongResultError, match="2 of 10 customers had no haircut, or more than one"):
        books.haircuts()


def test_a_room_with_few_chairs_turns_customers_away() -> None:
    outcome = raw.play(barber.program, Setting(500))
    assert outcome.handled == outcome.sent == 500
    assert outcome.details["turned_away"] > 0
    assert outcome.details["slept"] >= 1


# --- the smokers ------------------------------------------------------------------------------------------------------


def test_a_smoker_who_takes_anothers_turn_gives_no_figure() -> None:
    books = smokers.Books(50, begun=51, gone=smokers.SMOKERS, sent_home=[1] * smokers.SMOKERS)
    for who, steps in smokers.chosen(50):
        books.smoked[who] += 1
        assert 1 <= steps <= smokers.STEPS
    assert books.handled() == books.messages
    somebody = smokers.chosen(1)[0][0]
    books.smoked[somebody] -= 1
    books.smoked[somebody - 1] += 1
    with pytest.raises(
        WrongResultError, match="2 of 200 have smoked more or less often than they were chosen"
    ):
        books.handled()


# --- the series -------------------------------------------------------------------------------------------------------


def test_a_series_is_the_logistic_map_and_another_last_term_gives_no_figure() -> None:
    x = 0.0025
    assert (logistic.last(0, 0), logistic.last(0, 1)) == (x, 3.46 * x * (1 - x))
    found = {number: logistic.last(number, 7) for number in range(logistic.SERIES)}
    assert len(set(found.values())) == logistic.SERIES
    books = logistic.Books(7, asked=[7] * 10, told=[15] * 10, found=found, begun=1)
    assert books.handled() == books.messages == 231
    books.found[4] = logistic.last(4, 6)
    with pytest.raises(WrongResultError, match=r"series 4 ends with 0\.\d+, not with 0\.\d+"):
        books.handled()
    del books.found[4]
    with pytest.raises(WrongResultError, match="series 4 ends with None"):
        books.handled()


# --- the bank ---------------------------------------------------------------------------------------------------------


def test_a_bank_that_loses_money_gives_no_figure() -> None:
    books = bank.Books(100)
    for sender, recipient, amount in bank.transactions(100):
        books.balances[sender] -= amount
        books.balances[recipient] += amount
    books.handled()
    books.balances[999] -= 1
    with pytest.raises(WrongResultError, match="there were 1000000000 in all, and now there are 999999999"):
        books.handled()


def test_money_goes_up_only_so_that_nobody_waits_in_a_ring() -> None:
    for sender, recipient, amount in bank.transactions(5_000):
        assert 0 <= sender < recipient < bank.ACCOUNTS
        assert sender < bank.SENDERS
        assert 1 <= amount <= bank.MOST


# --- Erlang, too ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_bank_in_erlang_is_compared_with_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    if refusal := otp.refusal():
        pytest.skip(refusal)
    bank.with_otp(Setting(50)).check()
    monkeypatch.setattr(bank, "transactions", Mock(return_value=[(0, 1, 1)] * 50))
    with pytest.raises(WrongResultError, match="somebody has another's"):
        bank.with_otp(Setting(50))
