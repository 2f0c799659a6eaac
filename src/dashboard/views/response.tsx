import type { ResponsePlace } from '../../protocol/response-rows.ts';
import * as format from '../../show/format.ts';
import { Command, CopyButton, Problem } from '../controls/action.tsx';
import { Figure } from '../controls/figures.tsx';
import { ResponseMark } from '../controls/marks.tsx';
import { Table } from '../controls/table.tsx';
import { Time } from '../controls/time.tsx';
import { ownFailure, usePolled } from '../polled.ts';
import { at, href } from '../router.ts';
import { session } from '../session.ts';
import { pathOf, RESPONSE_COLUMNS } from './responses.tsx';
import { curlCommand } from './snippets.ts';

const LOOK_MS = 2000;
const ROW_PX = 32;

/** Shows one stored response: where it stands, what it goes on from, and how long it is kept. */
export function ResponseView({ id }: { id: string }) {
  const path = `api/responses/${encodeURIComponent(id)}`;
  const { data, failure } = usePolled<ResponsePlace>(path, LOOK_MS).value;
  return (
    <section class="view job" aria-labelledby="response-title">
      <p class="crumbs">
        <a href={href('responses')}>Responses</a>
      </p>
      <header>
        <h1 id="response-title" data-id={id}>
          <span class="id">{id}</span> <CopyButton text={id} what="the id" />
        </h1>
        {data && <ResponseMark status={data.response.status} />}
      </header>
      <Problem text={ownFailure(failure)} />
      {data && <Facts place={data} />}
      {data && <Chain place={data} />}
      {data && <Said id={id} />}
    </section>
  );
}

/** Says how to read what was said, which the page does not show. */
function Said({ id }: { id: string }) {
  const address = at(`v1/responses/${encodeURIComponent(id)}`);
  return (
    <>
      <h2>Read what was said from a shell</h2>
      <Command text={curlCommand(address, session.value?.asks_for_token === true)} />
    </>
  );
}

function Facts({ place: { response, conversation } }: { place: ResponsePlace }) {
  const { id, model, tenant, token_name, is_background, created_at, ended_at, expires_at } = response;
  return (
    <dl class="facts">
      <Figure name="Model">{model ?? format.UNKNOWN}</Figure>
      <Figure name="Tenant">{tenant ?? format.UNKNOWN}</Figure>
      <Figure name="Token">{token_name ?? format.UNKNOWN}</Figure>
      <Figure name="Made">
        {is_background ? (
          <a href={href(`jobs/${encodeURIComponent(id)}`)}>in the background, as a job</a>
        ) : (
          'for its caller'
        )}
      </Figure>
      <Figure name="Created">
        <Time at={created_at} />
      </Figure>
      <Figure name="Ended">
        <Time at={ended_at} />
      </Figure>
      <Figure name="Kept until">
        <Time at={expires_at} />
      </Figure>
      <Figure name="Conversation">
        {response.conversation === null ? (
          'none'
        ) : (
          <a class="id" href={href(`responses?conversation=${encodeURIComponent(response.conversation)}`)}>
            {format.shortId(response.conversation)}
          </a>
        )}
      </Figure>
      {conversation && <Figure name="Items of the conversation">{format.count(conversation.items)}</Figure>}
      {conversation && (
        <Figure name="Conversation changed">
          <Time at={conversation.changed_at} />
        </Figure>
      )}
      {conversation?.locked_by && (
        <Figure name="Conversation waits for">
          <a class="id" href={href(pathOf({ id: conversation.locked_by }))}>
            {format.shortId(conversation.locked_by)}
          </a>
        </Figure>
      )}
    </dl>
  );
}

function Chain({ place: { response, chain, is_cut } }: { place: ResponsePlace }) {
  if (response.previous_response_id === null) return null;
  return (
    <>
      <h2>Goes on from</h2>
      {chain.length > 0 && (
        <Table
          label="The responses before it, the last one first"
          columns={RESPONSE_COLUMNS}
          rows={chain}
          rowHeight={ROW_PX}
          idOf={({ id }) => id}
          pathOf={pathOf}
        />
      )}
      {is_cut && (
        <p class="dim">
          There are more before these, or the one before is not stored any more; what they said is kept with
          this one.
        </p>
      )}
    </>
  );
}
