import type { EngineFailure } from '../kinds/description.ts';
import type { Argument } from './flag-arguments.ts';

/** Rewrites a failure for whoever set the value: it names the variable in place of the flag that was made of it. */
export function inVariables(
  failure: EngineFailure,
  lastLines: readonly string[],
  given: readonly Argument[],
): EngineFailure {
  if (failure.kind !== 'bad_configuration') return failure;
  const refused = refusedIn(lastLines, given);
  if (refused) {
    const { argument, message } = refused;
    return {
      kind: failure.kind,
      cause: `the engine does not accept ${argument.from} (${argument.flag}): ${message}`,
      advice: `Correct ${argument.from}.`,
    };
  }
  const named = /--[\w-]+/.exec(failure.cause)?.[0];
  const argument = given.find(({ flag }) => flag !== null && flag === named);
  if (!argument || argument.from === 'VLLM_EXTRA_ARGS') return failure;
  const { from } = argument;
  return {
    kind: failure.kind,
    cause: failure.cause.replace(named!, `${from} (${named})`),
    advice: failure.advice.replace(`${named} in VLLM_EXTRA_ARGS`, from).replaceAll('VLLM_EXTRA_ARGS', from),
  };
}

interface Refused {
  argument: Argument;
  message: string;
}

function refusedIn(lines: readonly string[], given: readonly Argument[]): Refused | null {
  const find = (flag: string) => given.find((each) => each.flag === flag);
  for (const line of lines) {
    // argparse writes `error: argument --tensor-parallel-size/-tp: invalid int value: 'x'`.
    const [, names, message] = /error: argument (\S+): (.*)/.exec(line) ?? [];
    const argument = names?.split('/').map(find).find(Boolean);
    if (argument) return { argument, message: message!.trim() };
  }
  // pydantic writes `2 validation errors for SchedulerConfig`, then for each a line with the name and one with the
  // reason.
  const start = lines.findIndex((line) => /validation errors? for \w+Config/.test(line));
  if (start < 0) return null;
  for (let at = start + 1; at + 1 < lines.length; at++) {
    const field = /^\s*(?:\([^)]*\)\s*(?:ERROR \S+ \S+ \[[^\]]*\]\s*)?)?([a-z]\w*)$/.exec(lines[at]!)?.[1];
    const argument = field && find(`--${field.replaceAll('_', '-')}`);
    if (argument) return { argument, message: reasonIn(lines[at + 1]!) };
  }
  return null;
}

/** Returns the reason in a line such as `  Input should be greater than 0 [type=greater_than, input_value=0, ...]`. */
function reasonIn(line: string): string {
  return line.replace(/ \[type=.*$/, '').trim();
}
