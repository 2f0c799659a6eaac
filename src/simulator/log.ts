/** The outputs of the log: vLLM writes its log to stdout, tracebacks and uvicorn's lines to stderr. */
export interface LogSink {
  out(line: string): void;
  err(line: string): void;
}

export const silent: LogSink = { out() {}, err() {} };

/** The name of one of vLLM's processes; the simulator is all of them. */
type Source = 'APIServer' | 'EngineCore' | 'Worker';

/** Formats a line: `(APIServer pid=1) INFO 11-21 09:08:51 [file.py:1] text`. */
export function logLine(source: Source, place: string, text: string, level = 'INFO'): string {
  const now = new Date();
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  const time = `${two(now.getHours())}:${two(now.getMinutes())}:${two(now.getSeconds())}`;
  return `(${source} pid=${process.pid}) ${level} ${day} ${time} [${place}] ${text}`;
}
