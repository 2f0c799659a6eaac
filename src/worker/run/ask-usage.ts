import { type Member, membersOf } from './json-members.ts';

const ASKED = '{"include_usage":true}';

/** Whether this engine takes requests for the usage of streams. One that refuses is not asked again. */
export interface UsageAsking {
  engine: 'untried' | 'takes' | 'refuses';
}

/** The same of an engine that is asked for token ids. */
export interface IdsAsking extends UsageAsking {
  /** It has told parts of answers that only it makes one piece of: stored jobs ask it for that (run/assembled.ts). */
  parses?: boolean;
}

/**
 * The body with `stream_options.include_usage` put in, every other byte as it was: parsing and writing again would
 * round numbers. Null: there is nothing to put in. It asks for no stream, asks for usage itself, or has options that
 * would change its other events too.
 */
export function askUsage(body: string | Uint8Array): string | Uint8Array | null {
  if (typeof body === 'string') {
    const edit = editOf(body);
    return edit && body.slice(0, edit.start) + edit.text + body.slice(edit.end);
  }
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  // A character a byte, so that places in the text are places in the bytes.
  const edit = editOf(bytes.toString('latin1'));
  return (
    edit && Buffer.concat([bytes.subarray(0, edit.start), Buffer.from(edit.text), bytes.subarray(edit.end)])
  );
}

interface Edit {
  start: number;
  end: number;
  text: string;
}

/** Of a key that comes twice the last one counts, as for parsers. */
function editOf(body: string): Edit | null {
  let isStream = false;
  let options: Member | null = null;
  for (const member of membersOf(body)) {
    if (member.key === '"stream"') isStream = textOf(body, member) === 'true';
    else if (member.key === '"stream_options"') options = member;
  }
  if (!isStream) return null;
  if (options === null) return insertion(body, 0, `"stream_options":${ASKED},`);
  if (textOf(body, options) === 'null') return { ...options, text: ASKED };
  if (body[options.start] !== '{') return null;
  return editOfOptions(textOf(body, options), options.start);
}

/** @param offset of the options in the body */
function editOfOptions(options: string, offset: number): Edit | null {
  let asked: Member | null = null;
  let isEmpty = true;
  for (const member of membersOf(options)) {
    isEmpty = false;
    // Takes effect only with the other one, and then in every event.
    if (member.key === '"continuous_usage_stats"') return null;
    if (member.key === '"include_usage"') asked = member;
  }
  if (asked === null) return insertion(options, offset, `"include_usage":true${isEmpty ? '' : ','}`);
  if (textOf(options, asked) === 'true') return null;
  return { start: offset + asked.start, end: offset + asked.end, text: 'true' };
}

/** Right behind the brace that opens the object. */
function insertion(json: string, offset: number, text: string): Edit {
  const at = offset + json.indexOf('{') + 1;
  return { start: at, end: at, text };
}

function textOf(json: string, { start, end }: Member): string {
  return json.slice(start, end);
}
