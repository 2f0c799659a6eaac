import { Age } from '../controls/age.tsx';
import { Command } from '../controls/copy-button.tsx';
import { fleet } from '../live.ts';
import { at } from '../router.ts';

/** What a first-time visitor is to type, with this page's own address filled in. */
export function EmptyFleet() {
  const url = at('').replace(/\/$/, '');
  const isHere = /^(?:localhost|127\.|\[::1\])/.test(location.hostname);
  return (
    <section class="view empty" aria-labelledby="empty-title">
      <h1 id="empty-title">Add the first worker</h1>
      <p>
        A worker is a machine with an engine such as vLLM. It dials out to this queue; no port of it has to be
        open.
      </p>
      <ol>
        <li>
          <h2>On this queue's machine, make a token for workers</h2>
          <p>
            {isHere
              ? 'For a worker on this machine no token is needed unless this queue has some. For workers elsewhere it has to listen there too, with '
              : 'The command prints the token once. Restart the queue afterwards, it reads its tokens when it starts'}
            {isHere && <code>--host 0.0.0.0</code>}.
          </p>
          <Command text="npx worker-vllm token --scope worker" />
        </li>
        <li>
          <h2>On the machine with the GPU, start the worker and its engine</h2>
          <Command text={supervise(url)} />
          <p>
            In a container: the same variables, with <code>docker run --gpus all</code> and the image that{' '}
            <code>./build.sh</code> builds.
          </p>
        </li>
        <li>
          <h2>No GPU at hand?</h2>
          <p>A simulated engine takes part as a real one would; its answers are made up.</p>
          <Command text={simulated(url)} />
        </li>
      </ol>
      <Waiting />
    </section>
  );
}

function supervise(url: string): string {
  return [
    `CASOLA_WS_URL=${url.replace(/^http/, 'ws')} CASOLA_API_URL=${url} \\`,
    'CASOLA_API_TOKEN=the-token CASOLA_CONFIG_ID=qwen-small \\',
    'VLLM_MODEL=Qwen/Qwen3-0.6B CASOLA_MAX_JOBS=16 npx worker-vllm supervise',
  ].join('\n');
}

/** A port apart, so that nothing of a real engine is in the way. */
function simulated(url: string): string {
  return [
    'npx worker-vllm simulate test-model --port 8001 &',
    `CASOLA_WS_URL=${url.replace(/^http/, 'ws')} CASOLA_API_URL=${url} \\`,
    'CASOLA_API_TOKEN=the-token CASOLA_CONFIG_ID=simulated \\',
    'ENGINE_URL=http://127.0.0.1:8001 CASOLA_MAX_JOBS=8 npx worker-vllm work',
  ].join('\n');
}

/** What has come of it so far. */
function Waiting() {
  const refused = fleet.value?.attention.find(({ code }) => code === 'token_refused');
  return (
    <p class="waiting" role="status">
      <span class="pulse" aria-hidden="true" /> Waiting for a worker …{' '}
      {refused ? (
        <span class="warn">
          {refused.text} {refused.advice} (<Age at={refused.since} /> ago)
        </span>
      ) : (
        'none has connected yet. This page changes by itself as soon as one does.'
      )}
    </p>
  );
}
