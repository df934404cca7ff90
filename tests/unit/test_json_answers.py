"""What a model writes around its answer changes nothing; what is not a whole answer never becomes one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeaways.schemas.errors import AnswerUnreadable
from takeaways.workers.models.answers import ConsolidationAnswer, ExtractionAnswer
from takeaways.workers.models.json_answers import read_answer
from tests.cases import case


def ours(text: Any) -> Any:
    """The answers of the cases as ours: `lessons` of `evidence_seq` become candidates of one room."""
    if not isinstance(text, str):
        return text
    quote = '[{"message":"m1","quote":"9443"}]'
    return (
        text.replace('"lessons":[]', '"rooms":[]')
        .replace('{"topic"', '{"kind":"fact","topic"')
        .replace("{'topic'", "{'kind':'fact','topic'")
        .replace('"lessons":[', '"rooms":[{"room":"r1","summary":"","candidates":[')
        .replace('"evidence_seq":[1]}]}', f'"evidence":{quote}}}]}}]}}')
        .replace('"evidence_seq":[1,],},],}', f'"evidence":{quote},}},],}},],}}')
        .replace('"lessons"', '"rooms"')
    )


def texts_of(answer: ExtractionAnswer) -> list[str]:
    return [learned.text for room in answer.rooms for learned in room.candidates]


def whole(*texts: str) -> str:
    return ExtractionAnswer.model_validate(
        {
            "rooms": [
                {
                    "room": "r1",
                    "summary": "s",
                    "candidates": [
                        {
                            "kind": "fact",
                            "topic": "t",
                            "text": text,
                            "evidence": [{"message": "m1", "quote": "q"}],
                        }
                        for text in texts
                    ],
                }
            ]
        }
    ).model_dump_json()


def test_what_stands_around_the_json_does_not_change_the_answer() -> None:
    """A fence, prose, a byte order mark or an example before it: the lesson is the same, with no second call."""
    texts = [ours(text) for text in case("MA-01")["model_texts"]]

    read = [texts_of(read_answer(text, ExtractionAnswer)) for text in texts]

    assert read[6] == ["Use ```sh fences and {braces}"]
    assert read[:6] + read[7:] == [["Staging uses port 9443"]] * 7


def test_an_example_never_wins_over_the_answer_wherever_it_stands() -> None:
    """An empty example behind the answer would otherwise mean "nothing to remember"."""
    text = f'{whole("Staging uses port 9443")}\nWith no lessons it would have been: {{"rooms":[]}}'

    assert texts_of(read_answer(text, ExtractionAnswer)) == ["Staging uses port 9443"]


def test_nearly_json_is_read_without_a_changed_word_or_not_at_all() -> None:
    """A guess could change what is remembered; an unreadable answer is asked for again instead."""
    trailing, single, curly, commented, literal, twice = map(ours, case("MA-02")["model_texts"])

    assert texts_of(read_answer(trailing, ExtractionAnswer)) == ["Staging uses port 9443"]
    assert texts_of(read_answer(commented, ExtractionAnswer)) == ["Staging uses\n port 9443"]
    assert read_answer(twice.replace("lessons", "rooms"), ExtractionAnswer).rooms == ()
    for text in (single, curly, literal):
        with pytest.raises(AnswerUnreadable):
            read_answer(text, ExtractionAnswer)


def test_commas_and_slashes_in_a_text_stay() -> None:
    """Only what stands outside of strings is surplus."""
    text = 'Look at https://x.test/a, /* not a comment */ and "[1,]" // really'
    broken = whole(text).removesuffix("}") + ", /* end */ }"

    assert texts_of(read_answer(broken, ExtractionAnswer)) == [text]


@given(st.lists(st.text(max_size=40).filter(str.strip), min_size=1, max_size=3), st.data())
def test_an_answer_that_breaks_off_is_never_read(texts: list[str], data: st.DataObject) -> None:
    """Half a memory must never be stored as the whole of it, wherever it was cut."""
    answer = whole(*texts)
    cut = data.draw(st.integers(0, len(answer) - 1))

    with pytest.raises(AnswerUnreadable):
        read_answer(answer[:cut], ExtractionAnswer)


@pytest.mark.parametrize("around", ["", "Here you are:\n```json\n", 'The form is {"edits":[]}. Now:\n'])
def test_a_part_of_a_cut_answer_is_no_answer(around: str) -> None:
    """`{}` fits a consolidation: one that stands inside of an unfinished answer must not pass for all of it."""
    with pytest.raises(AnswerUnreadable, match="not complete"):
        read_answer(around + '{"edits": [{}, {"edits": []}', ConsolidationAnswer)


@given(
    st.lists(st.text(max_size=60).filter(str.strip), max_size=3), st.text(alphabet="abc \n.`~*#", max_size=40)
)
def test_any_text_comes_through_any_surroundings(texts: list[str], around: str) -> None:
    """Back-ticks, braces and quotes within what is remembered are part of it."""
    answer = whole(*texts)

    assert read_answer(f"{around}\n{answer}\n{around}", ExtractionAnswer).model_dump_json() == answer


@pytest.mark.parametrize(
    "text", ["", " \n", "\ufeff", "I'm not able to summarise this conversation.", "[]", "null"]
)
def test_no_object_is_never_the_same_as_nothing_to_remember(text: str) -> None:
    """Silence and a polite refusal are failures; only an answer says that there is nothing."""
    with pytest.raises(AnswerUnreadable):
        read_answer(text, ExtractionAnswer)


def test_the_complaint_says_where_and_why_without_quoting_the_answer() -> None:
    """It is logged, and shown to the model: it must help, and repeat nothing that somebody said."""
    secret = "the password is hunter2"
    answer = json.loads(whole("x"))
    answer["rooms"][0]["candidates"][0]["kind"] = secret
    answer["rooms"][0][secret] = 1

    with pytest.raises(AnswerUnreadable) as found:
        read_answer(json.dumps(answer), ExtractionAnswer)

    assert "rooms.0.candidates.0.kind: Input should be 'rule'" in str(found.value)
    assert secret not in str(found.value)


def test_a_deeply_nested_answer_is_unreadable() -> None:
    """A runaway answer must end one job, not the worker."""
    with pytest.raises(AnswerUnreadable):
        read_answer('{"rooms":' * 50_000 + "}" * 50_000, ExtractionAnswer)


@pytest.mark.parametrize("value", ["9" * 5_000, f"[{'9' * 5_000}]", f'"x": {"9" * 5_000}'])
def test_a_number_of_thousands_of_digits_is_unreadable(value: str) -> None:
    """It is no error of JSON's but of the reader's, and would have ended the job as one of the code (QL-09)."""
    with pytest.raises(AnswerUnreadable):
        read_answer(f'{{"rooms": {value}}}', ExtractionAnswer)


@pytest.mark.parametrize(
    "thoughts",
    [
        '<think>\nThey said {port} and "9443</think>',
        '<think>First try: {"rooms": [ ... no.</think>\n\n',
        '<THINKING>It might be {"rooms":[]} or not.</THINKING>',
        "<reasoning></reasoning>",
        'So it is {"rooms": [ and then\n</think>\n',
    ],
)
def test_thoughts_before_the_answer_are_no_part_of_it(thoughts: str) -> None:
    """Local models think aloud in the text; a brace or half a draft in it made every answer unreadable."""
    answer = f"{thoughts}```json\n{whole('Staging uses port 9443')}\n```"

    assert texts_of(read_answer(answer, ExtractionAnswer)) == ["Staging uses port 9443"]


def test_a_draft_within_thoughts_that_never_ended_is_no_answer() -> None:
    """The model stopped before it answered: what it tried out would mean "nothing to remember"."""
    with pytest.raises(AnswerUnreadable, match="thoughts"):
        read_answer('<think>Perhaps {"rooms":[]}? Let me see', ExtractionAnswer)


@pytest.mark.parametrize("text", ["Close it with </think>.", "<think> opens, {} and </think> closes {}"])
def test_a_lesson_about_thoughts_stays_as_it_is(text: str) -> None:
    """Somebody may work on just that: within the answer the tags are words like others."""
    assert texts_of(read_answer(whole(text), ExtractionAnswer)) == [text]
