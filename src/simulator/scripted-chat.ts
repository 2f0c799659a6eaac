import type { Finish } from './scheduler.ts';
import type { Piece, ScriptedCall } from './script.ts';
import { chatShapes, chunkHead, messageOf, type Shapes, tail } from './shapes.ts';

/** Returns the shapes of a chat whose answer is written down, as vLLM's parsers of reasoning and tools make it. */
export function scriptedChat(pieces: readonly Piece[]): Shapes {
  const hasCalls = pieces.some(({ kind }) => kind === 'call');
  const reasonOf = ({ reason }: Finish) => (reason === 'stop' && hasCalls ? 'tool_calls' : reason);
  return {
    ...chatShapes,
    text: (head, index) => {
      let made = 0;
      return (_text, finish, closes, usage) => {
        const delta = deltaOf(pieces, made++);
        const choice = {
          index,
          delta,
          logprobs: null,
          finish_reason: finish && reasonOf(finish),
          token_ids: null,
        };
        const body = JSON.stringify({ ...chunkHead(head, 'chat.completion.chunk'), choices: [choice] });
        return `data: ${body.slice(0, -1)}${tail(closes, usage)}}\n\n`;
      };
    },
    whole: (head, choices, usage) => {
      const body = chatShapes.whole(head, choices, usage) as { choices: object[] };
      const said = pieces.slice(0, usage.completion);
      const textOf = (kind: Piece['kind']) =>
        said.flatMap((piece) => (piece.kind === kind ? piece.text : [])).join('');
      const tool_calls = callsIn(said);
      const [choice] = choices;
      const message = {
        ...messageOf(textOf('text') || null),
        reasoning: textOf('reasoning') || null,
        ...(tool_calls.length > 0 && { tool_calls }),
      };
      return { ...body, choices: [{ ...body.choices[0], message, finish_reason: reasonOf(choice!.finish) }] };
    },
  };
}

function deltaOf(pieces: readonly Piece[], at: number): object {
  const piece = pieces[at];
  if (piece === undefined) return {};
  if (piece.kind === 'text') return { content: piece.text };
  if (piece.kind === 'reasoning') return { reasoning: piece.text };
  const before = pieces[at - 1];
  const isFirst = before?.kind !== 'call' || before.index !== piece.index;
  const { index, call, text } = piece;
  const named = isFirst ? { id: call.id, type: 'function' } : {};
  const called = isFirst ? { name: call.name, arguments: text } : { arguments: text };
  return { tool_calls: [{ index, ...named, function: called }] };
}

function callsIn(pieces: readonly Piece[]): object[] {
  const said = new Map<ScriptedCall, string>();
  for (const piece of pieces)
    if (piece.kind === 'call') said.set(piece.call, (said.get(piece.call) ?? '') + piece.text);
  return [...said].map(([{ id, name }, text]) => ({
    id,
    type: 'function',
    function: { name, arguments: text },
  }));
}
