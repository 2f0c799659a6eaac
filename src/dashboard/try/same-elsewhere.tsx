import { useState } from 'preact/hooks';
import { Chips } from '../controls/chips.tsx';
import { Command } from '../controls/copy-button.tsx';
import { at } from '../router.ts';
import { session } from '../session.ts';
import type { ChatRequest } from './request.ts';
import { SNIPPETS } from './snippets.ts';

const NAMES = Object.fromEntries(Object.entries(SNIPPETS).map(([key, { name }]) => [key, name]));

/** Shows the request as another program would make it. */
export function SameElsewhere({ body }: { body: ChatRequest }) {
  const [language, setLanguage] = useState('curl');
  const target = { baseUrl: at('v1'), asksForToken: session.value?.asks_for_token === true };
  const text = SNIPPETS[language]!.of(target, body);
  const shown = text.replaceAll(/(data:[\w/+.-]+;base64,[\w+/]{20})[\w+/=]{40,}/g, '$1…');
  return (
    <section class="elsewhere" aria-labelledby="elsewhere-title">
      <div class="tools">
        <h2 id="elsewhere-title">The same elsewhere</h2>
        <Chips label="Language" chosen={language} options={NAMES} onChoose={setLanguage} />
      </div>
      <Command text={text} shown={shown} what="the program" />
      {shown !== text && <p class="dim">The image is shortened here; Copy takes all of it.</p>}
    </section>
  );
}
