import { useState } from 'preact/hooks';

/** Returns the state of an action that a person starts: whether it is under way, and what last went wrong with it. */
export function useAction() {
  const [problem, setProblem] = useState<string | null>(null);
  const [isActing, setActing] = useState(false);
  /** @param what rejects with an Error whose message is for the person */
  const act = async (what: () => Promise<void>) => {
    setActing(true);
    setProblem(null);
    await what().catch((error: Error) => setProblem(error.message));
    setActing(false);
  };
  return { act, isActing, problem };
}

/** Shows what went wrong; nothing where nothing did. */
export function Problem({ text }: { text: string | null }) {
  return (
    text && (
      <p class="problem" role="alert">
        {text}
      </p>
    )
  );
}
