"""Uses the Responses API and conversations as an application does; prints what came as one line of JSON."""

import json
import sys
import time

import openai
from openai import OpenAI

url, model, part = sys.argv[1:4]
# A model of random weights does not end by itself.
shared = {"model": model, "temperature": 0, **({"max_output_tokens": 24} if "--limited" in sys.argv else {})}
client = OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
seen = {}


def status_of(call):
    """The status and the code of the error that a call raises."""
    try:
        call()
    except openai.APIStatusError as error:
        return [error.status_code, error.code]
    return None


def texts(items):
    """The role and the text of each message, in the order of the list."""
    return [[item.role, "".join(part.text for part in item.content)] for item in items if item.type == "message"]


def ended(response):
    """Polls until a response is final."""
    while response.status in ("queued", "in_progress"):
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    return response


def final_of(stream, events):
    """The response at the end of a stream, which the helper gives only where it is complete."""
    return stream.get_final_response() if events[-1].type == "response.completed" else events[-1].response


def chain():
    first = client.responses.create(**shared, input="One.", metadata={"of": "test"})
    second = client.responses.create(**shared, input="Two.", previous_response_id=first.id)
    got = client.responses.retrieve(second.id)
    seen["retrieved"] = got.output_text == second.output_text and got.previous_response_id == first.id
    seen["metadata"] = client.responses.retrieve(first.id).metadata
    listed = list(client.responses.input_items.list(second.id, order="asc", limit=2))
    seen["input_items"] = texts(listed) == [["user", "One."], ["assistant", first.output_text], ["user", "Two."]]
    again = list(client.responses.input_items.list(second.id, order="asc"))
    seen["stable_ids"] = [item.id for item in listed] == [item.id for item in again]
    seen["more_input"] = second.usage.input_tokens > first.usage.input_tokens
    client.responses.delete(first.id)
    seen["deleted"] = status_of(lambda: client.responses.retrieve(first.id))
    missing = lambda: client.responses.create(**shared, input="Three.", previous_response_id=first.id)
    seen["missing_previous"] = status_of(missing)
    forgotten = client.responses.create(**shared, input="One.", store=False)
    seen["not_stored"] = status_of(lambda: client.responses.retrieve(forgotten.id))
    seen["not_in_background"] = status_of(lambda: client.responses.cancel(second.id))[0]


def streams():
    with client.responses.stream(**shared, input="Say hello.") as stream:
        events = list(stream)
        final = final_of(stream, events)
    numbers = [event.sequence_number for event in events]
    seen["numbers"] = numbers == list(range(len(numbers)))
    seen["same"] = client.responses.retrieve(final.id).output_text == final.output_text != ""


def background():
    made = client.responses.create(**shared, input="Say hello.", background=True)
    seen["queued"] = [made.status, made.background]
    whole = ended(made)
    seen["polled"] = [whole.status, whole.output_text != "", whole.completed_at is not None]
    seen["not_streamed"] = status_of(lambda: client.responses.retrieve(made.id, stream=True))[0]

    with client.responses.stream(**shared, input="Say hello.", background=True) as stream:
        left = []
        for event in stream:
            left.append(event)
            if event.sequence_number == 10:
                break
    id = left[0].response.id
    with client.responses.stream(response_id=id, starting_after=10) as stream:
        rest = list(stream)
        final = final_of(stream, rest)
    raw = list(client.responses.retrieve(id, stream=True, starting_after=10))
    numbers = [event.sequence_number for event in [*left, *rest]]
    said = "".join(event.delta for event in [*left, *rest] if event.type == "response.output_text.delta")
    seen["resumed"] = {
        "first": [event.type for event in left[:3]],
        "numbers": numbers == list(range(len(numbers))),
        "same_numbers": [event.sequence_number for event in raw] == [event.sequence_number for event in rest],
        "text": said == final.output_text == whole.output_text,
        "retrieved": client.responses.retrieve(id).output_text == said,
    }

    long = client.responses.create(
        model=model, input="Say much.", background=True, stream=True, extra_body={"ignore_eos": True}
    )
    cancelled = None
    for event in long:
        if event.type == "response.created":
            long_id = event.response.id
        elif event.type == "response.output_text.delta" and cancelled is None:
            cancelled = client.responses.cancel(long_id)
    again = client.responses.cancel(long_id)
    seen["cancelled"] = [cancelled.status, again.status, client.responses.retrieve(long_id).status]
    seen["goes_on"] = client.responses.create(**shared, input="And?", previous_response_id=id).status


def conversations():
    items = [{"type": "message", "role": "user", "content": "My name is Ada."}]
    talk = client.conversations.create(metadata={"topic": "names"}, items=items)
    said = client.responses.create(**shared, input="Who am I?", conversation=talk.id)
    seen["named"] = said.conversation.id == talk.id
    listed = list(client.conversations.items.list(talk.id, order="asc", limit=2))
    expected = [["user", "My name is Ada."], ["user", "Who am I?"], ["assistant", said.output_text]]
    seen["items"] = texts(listed) == expected
    with client.responses.stream(**shared, input="Sure?", conversation={"id": talk.id}) as stream:
        stream.until_done()
    seen["after_stream"] = len(client.conversations.items.list(talk.id).data)
    behind = client.responses.create(
        model=model,
        input="And now?",
        conversation=talk.id,
        background=True,
        extra_body={"ignore_eos": True},
    )
    other = lambda: client.responses.create(**shared, input="At once?", conversation=talk.id)
    seen["locked"] = status_of(other)
    seen["unlocked"] = [client.responses.cancel(behind.id).status, status_of(other)]
    seen["updated"] = client.conversations.update(talk.id, metadata={"topic": "Ada"}).metadata
    added = client.conversations.items.create(talk.id, items=items)
    item = client.conversations.items.retrieve(added.data[0].id, conversation_id=talk.id)
    seen["item"] = texts([item])
    seen["item_deleted"] = client.conversations.items.delete(item.id, conversation_id=talk.id).id == talk.id
    both = lambda: client.responses.create(
        **shared, input="?", conversation=talk.id, previous_response_id=said.id
    )
    seen["both"] = status_of(both)[0]
    seen["deleted"] = client.conversations.delete(talk.id).deleted
    seen["gone"] = status_of(lambda: client.conversations.retrieve(talk.id))[0]


def socket():
    def make(**more):
        """The last event of a response that is made on the connection."""
        connection.response.create(**{**shared, **more})
        numbers = []
        for event in connection:
            if event.type == "error":
                return [event.status, event.error.code]
            numbers.append(event.sequence_number)
            if event.type in ("response.completed", "response.incomplete", "response.failed"):
                assert numbers == list(range(len(numbers))), numbers
                return event.response

    with client.responses.connect() as connection:
        first = make(input="One.", store=False)
        second = make(input="Two.", store=False, previous_response_id=first.id)
        whole = ["One.", first.output_text, "Two."]
        user = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]} for text in whole]
        items = [user[0], *(item.to_dict() for item in first.output), user[2]]
        seen["same"] = second.output_text == client.responses.create(**shared, input=items).output_text != ""
        seen["previous"] = second.previous_response_id == first.id
        seen["not_stored"] = status_of(lambda: client.responses.retrieve(second.id))
        stored = make(input="Three.", previous_response_id=second.id)
        listed = texts(client.responses.input_items.list(stored.id, order="asc"))
        seen["stored"] = [text for _, text in listed] == [*whole, second.output_text, "Three."]
        behind = make(input="Four.", store=False, previous_response_id=stored.id)
        seen["behind_stored"] = make(input="Five.", store=False, previous_response_id=behind.id).status
        warm = make(input="Six.", store=False, generate=False)
        seen["warm"] = [warm.status, make(input="Seven.", store=False, previous_response_id=warm.id).status]
        seen["forgotten"] = make(input="?", previous_response_id=first.id)
        seen["goes_on"] = make(input="Eight.").status


def counts():
    counted = client.responses.input_tokens.count(model=model, input="Say hello.")
    made = client.responses.create(**shared, input="Say hello.")
    seen["counted"] = [counted.object, counted.input_tokens == made.usage.input_tokens]


globals()[part]()
print(json.dumps(seen))
