// Tool calls and structured output with the official OpenAI client. The engine must be able to: vLLM is, the simulator
// is not.
import OpenAI from 'openai';

const client = new OpenAI({
  baseURL: `${process.env.WORKER_VLLM_URL ?? 'http://127.0.0.1:8788'}/v1`,
  apiKey: process.env.WORKER_VLLM_TOKEN ?? 'none',
});
const model = process.env.WORKER_VLLM_MODEL ?? 'default';
const city = {
  type: 'object',
  properties: { city: { enum: ['Paris', 'Oslo', 'Lima'] } },
  required: ['city'],
  additionalProperties: false,
};

const called = await ask({
  model,
  messages: [{ role: 'user', content: 'How is the weather in Paris?' }],
  tools: [{ type: 'function', function: { name: 'get_weather', parameters: city } }],
  tool_choice: { type: 'function', function: { name: 'get_weather' } },
  max_tokens: 64,
});
const [call] = called.choices[0].message.tool_calls;
console.log('tool call:', call.function.name, call.function.arguments);

const structured = await ask({
  model,
  messages: [{ role: 'user', content: 'Name a capital.' }],
  response_format: { type: 'json_schema', json_schema: { name: 'capital', schema: city } },
  max_tokens: 64,
});
console.log('structured:', structured.choices[0].message.content);

function ask(body) {
  return client.chat.completions.create(body).catch(({ status, message }) => {
    console.error(
      status ? `${status}: ${message}` : `${message} Is the queue running? "npm start" starts one.`,
    );
    if (status)
      console.error(
        "vLLM calls tools with VLLM_EXTRA_ARGS='--enable-auto-tool-choice --tool-call-parser hermes'.",
      );
    process.exit(1);
  });
}
