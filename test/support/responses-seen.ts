/** What test/clients/openai_responses.py sees, by its parts. @param status with which an answer ends */
export function responsesSeen(status: 'completed' | 'incomplete') {
  return {
    chain: {
      retrieved: true,
      metadata: { of: 'test' },
      input_items: true,
      stable_ids: true,
      more_input: true,
      deleted: [404, 'response_not_found'],
      missing_previous: [400, 'previous_response_not_found'],
      not_stored: [404, 'response_not_found'],
      not_in_background: 400,
    },
    streams: { numbers: true, same: true },
    background: {
      queued: ['queued', true],
      polled: [status, true, status === 'completed'],
      not_streamed: 400,
      resumed: {
        first: ['response.created', 'response.queued', 'response.in_progress'],
        numbers: true,
        same_numbers: true,
        text: true,
        retrieved: true,
      },
      cancelled: ['cancelled', 'cancelled', 'cancelled'],
      goes_on: status,
    },
    socket: {
      same: true,
      previous: true,
      not_stored: [404, 'response_not_found'],
      stored: true,
      behind_stored: status,
      warm: ['completed', status],
      forgotten: [400, 'previous_response_not_found'],
      goes_on: status,
    },
    conversations: {
      named: true,
      items: true,
      after_stream: 5,
      locked: [400, 'conversation_locked'],
      unlocked: ['incomplete', null],
      updated: { topic: 'Ada' },
      item: [['user', 'My name is Ada.']],
      item_deleted: true,
      both: 400,
      deleted: true,
      gone: 404,
    },
  };
}
