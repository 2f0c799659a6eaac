import { useEffect, useState } from 'preact/hooks';

/** Returns the state of an action that a person starts: whether it is running, and what last went wrong with it. */
export function useAction() {
  const [problem, setProblem] = useState<string | null>(null);
  const [isActing, setActing] = useState(false);
  /** Runs the action. @param what rejects with an Error whose message is for the person */
  const act = async (what: () => Promise<void>) => {
    setActing(true);
    setProblem(null);
    await what().catch((error: Error) => setProblem(error.message));
    setActing(false);
  };
  return { act, isActing, problem };
}

/** Shows what went wrong; nothing if nothing did. */
export function Problem({ text }: { text: string | null }) {
  return (
    text && (
      <p class="problem" role="alert">
        {text}
      </p>
    )
  );
}

/** The button says "Copied" for this many ms. */
const SAID_MS = 1500;

/** Shows a button that copies a text. @param what names the text for those who do not see it: "the command" */
export function CopyButton({ text, what }: { text: string; what: string }) {
  const [said, setSaid] = useState<string | null>(null);
  useEffect(() => {
    if (said === null) return;
    const timer = setTimeout(() => setSaid(null), SAID_MS);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () => {
    copyText(text).then(
      () => setSaid('Copied'),
      () => setSaid('Select and copy it'),
    );
  };
  return (
    <button type="button" class="copy" onClick={copy} aria-label={`Copy ${what}`}>
      <span aria-live="polite">{said ?? 'Copy'}</span>
    </button>
  );
}

/** Copies a text. Browsers have no clipboard for pages that came over plain HTTP from another machine. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return await navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  if (!isCopied) throw new Error('not copied');
}

interface CommandProps {
  text: string;
  /** The shown text, if it is shorter than the copied one. */
  shown?: string;
  what?: string;
}

/** Shows a command to be pasted elsewhere, with the button that copies all of it. */
export function Command({ text, shown = text, what = 'the command' }: CommandProps) {
  return (
    <div class="command">
      <pre>{shown}</pre>
      <CopyButton text={text} what={what} />
    </div>
  );
}

/** Saves a text as a file for the person. */
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
  Object.assign(document.createElement('a'), { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}
