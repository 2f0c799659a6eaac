/**
 * This file has answers that somebody wrote down beforehand, so that agents can be run against the simulator: the
 * engine gives them in turn, as text, as reasoning and as calls of tools.
 */
import { readFileSync } from 'node:fs';
import type { Body } from './fields.ts';
import type { TokenSource } from './text.ts';

export interface ScriptedCall {
  /** The name of the tool; one in a namespace is called `namespace__name`. */
  name: string;
  /** JSON of an object. */
  arguments: string;
  id: string;
}

interface ScriptedAnswer {
  reasoning: string;
  text: string;
  calls: ScriptedCall[];
}

export type Script = readonly ScriptedAnswer[];

/** The content of one token of a scripted answer. */
export type Piece = { kind: 'reasoning'; text: string } | { kind: 'text'; text: string } | CallPiece;

/** A part of a call's arguments. @property index the number of the call in its answer */
interface CallPiece {
  kind: 'call';
  index: number;
  call: ScriptedCall;
  text: string;
}

/** The characters of a call's arguments that are one token. */
const ARGUMENT_CHARACTERS = 8;

/**
 * Reads a script: a list of answers, or an object with the list as `answers`.
 * @throws Error that says what is wrong with it
 */
export function readScriptFile(path: string): Script {
  return readScript(readFileSync(path, 'utf8'));
}

/** Reads the JSON of a script. @throws Error that says what is wrong with it */
export function readScript(json: string): Script {
  const value: unknown = JSON.parse(json);
  const list = Array.isArray(value) ? value : Object(value).answers;
  if (!Array.isArray(list) || list.length === 0) throw new Error('expected a list of one answer or more');
  return list.map(readAnswer);
}

function readAnswer(answer: unknown, at: number): ScriptedAnswer {
  const { reasoning = '', text = '', calls = [], ...others } = Object(answer) as Body;
  const [odd] = Object.keys(others);
  if (odd !== undefined) throw new Error(`answers[${at}]: "${odd}" is none of text, reasoning and calls`);
  if (typeof reasoning !== 'string' || typeof text !== 'string' || !Array.isArray(calls))
    throw new Error(`answers[${at}]: expected texts as text and reasoning, and a list of calls`);
  if (`${reasoning}${text}` === '' && calls.length === 0)
    throw new Error(`answers[${at}]: expected text, reasoning or calls`);
  return {
    reasoning,
    text,
    calls: calls.map((call, index) => readCall(call, `answers[${at}]`, `${at}_${index}`)),
  };
}

function readCall(call: unknown, where: string, number: string): ScriptedCall {
  const { name, arguments: given = {}, input, id = `call_${number}` } = Object(call) as Body;
  if (typeof name !== 'string' || name === '') throw new Error(`${where}: a call has no name`);
  const said = input === undefined ? given : { input };
  return { name, arguments: typeof said === 'string' ? said : JSON.stringify(said), id: String(id) };
}

/**
 * Returns the answer to a conversation, token by token. Which one it is follows from the conversation alone, so that a
 * request that is repeated has the same answer; after the last one that is given again.
 * @param turns the assistant's turns in the conversation
 */
export function scriptedPieces(script: Script, turns: number): readonly Piece[] {
  const { reasoning, text, calls } = script[Math.min(turns, script.length - 1)]!;
  return [
    ...wordsOf(reasoning).map((word) => ({ kind: 'reasoning', text: word }) as const),
    ...wordsOf(text).map((word) => ({ kind: 'text', text: word }) as const),
    ...calls.flatMap((call, index) =>
      partsOf(call.arguments).map((part) => ({ kind: 'call', index, call, text: part }) as const),
    ),
  ];
}

/** Returns the pieces as the tokens of a sequence. */
export function scriptedSource(pieces: readonly Piece[]): TokenSource {
  let made = 0;
  return { naturalLength: pieces.length, next: () => ({ id: made, text: pieces[made++]?.text ?? '' }) };
}

/** Counts the turns of the assistant in a chat; messages of the assistant in a row are one. */
export function assistantTurns(messages: readonly unknown[]): number {
  const roles = messages.map((message) => Object(message).role);
  return roles.filter((role, at) => role === 'assistant' && roles[at - 1] !== 'assistant').length;
}

function wordsOf(text: string): string[] {
  return text.match(/\s*\S+\s*$|\s*\S+/g) ?? (text === '' ? [] : [text]);
}

function partsOf(text: string): string[] {
  return text.match(new RegExp(`[^]{1,${ARGUMENT_CHARACTERS}}`, 'gu')) ?? [''];
}
