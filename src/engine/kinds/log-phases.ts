import type { LogPhase } from './description.ts';
import type { EnginePhase, PhaseProgress } from './report.ts';

/**
 * Matches the prefix of `(APIServer pid=1) INFO 11-21 09:08:51 [file.py:1] text`; its first and last part may be
 * missing.
 */
const PREFIX =
  /^(?:\([^)]*pid=\d+\)\s*)?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):?\s+)?(?:\d\d-\d\d \d\d:\d\d:\d\d\s+)?(?:\[[^\]]*:\d+\]\s*)?/;

/**
 * Patterns for the wording of vLLM 0.32, in the order of a start. Unknown wording has no effect: phases are for people.
 */
const PATTERNS: [RegExp, EnginePhase][] = [
  [/non-default args:|Resolved architecture:|Initializing a V1 LLM engine/, 'starting'],
  [
    /^Downloading|^Fetching \d+ files|\.(?:safetensors|bin|gguf):\s+\d+%|Time spent downloading weights/,
    'downloading',
  ],
  [/Starting to load model|Loading \S+ checkpoint shards|Loading weights took|Model loading took/, 'loading'],
  [/torch\.compile|Dynamo bytecode transform|Compiling a graph|Cache the graph/, 'compiling'],
  [/Capturing CUDA graph|Graph capturing finished/i, 'capturing'],
  [/KV cache size:|^init engine \(|Supported tasks:|Starting vLLM (?:API )?server/, 'warming'],
  [/Application startup complete/, 'ready'],
];

/** Returns the step of the start that a line of vLLM's log shows; null for all other lines. */
export function vllmPhase(line: string): LogPhase | null {
  const detail = line.replace(PREFIX, '').trim();
  const found = PATTERNS.find(([pattern]) => pattern.test(detail));
  if (!found) return null;
  const progress = progressIn(detail);
  return { phase: found[1], detail: shorten(detail), ...(progress ? { progress } : {}) };
}

/** Returns the progress that a bar shows: `3 of 8` if it counts whole things, else its percentage. */
export function progressIn(text: string): PhaseProgress | null {
  const counted = /\b(\d+)\/(\d+)(?![\d/])\s*(?:\[|$)/.exec(text);
  if (counted && Number(counted[2]) > 0) {
    return { text: `${counted[1]} of ${counted[2]}`, ...shareOf(Number(counted[1]) / Number(counted[2])) };
  }
  const percent = /(\d+)(?:\.\d+)?\s?%/.exec(text);
  if (!percent) return null;
  // Several files are downloaded concurrently, each with a progress bar of its own.
  const isOneOfSeveral = /-of-\d+\./.test(text);
  return { text: `${percent[1]} %`, ...(isOneOfSeveral ? {} : shareOf(Number(percent[1]) / 100)) };
}

function shareOf(share: number): { share: number } {
  return { share: Math.min(1, share) };
}

/** Shortens a text: the non-default arguments or a compilation's path would fill many lines of a page. */
function shorten(detail: string): string {
  return detail.length > 200 ? `${detail.slice(0, 199)}…` : detail;
}

export type LineLevel = 'debug' | 'info' | 'warn' | 'error';

/** Matches the level of a line as Python's engines write it, and as llama.cpp does: `0.00.008.791 E text`. */
const LEVEL =
  /^(?:\([^)]*\)\s*|\[\d{4}-[^\]]*\]\s*)?(ERROR|CRITICAL|WARNING|DEBUG)\b|^\d+\.\d\d\.\d{3}\.\d{3} ([EWD]) /;

/** Returns the level of a line of an engine's log. Lines about the worker's own probes count as noise. */
export function levelOf(line: string): LineLevel {
  if (/"GET \/(?:health|metrics|load|v1\/models)[ ?]/.test(line)) return 'debug';
  const level = LEVEL.exec(line)?.slice(1).find(Boolean);
  if (level === 'ERROR' || level === 'CRITICAL' || level === 'E') return 'error';
  if (level === 'WARNING' || level === 'W') return 'warn';
  return level === 'DEBUG' || level === 'D' ? 'debug' : 'info';
}
