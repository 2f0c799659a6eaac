// Vercel's AI SDK: text, whole and as a stream.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, streamText } from 'ai';

const road = createOpenAICompatible({
  name: 'worker-vllm',
  baseURL: `${process.env.WORKER_VLLM_URL ?? 'http://127.0.0.1:8788'}/v1`,
  apiKey: process.env.WORKER_VLLM_TOKEN ?? 'none',
});
const model = road(process.env.WORKER_VLLM_MODEL ?? 'default');
const prompt = 'What is the capital of France?';

const { text, usage } = await generateText({ model, prompt, maxOutputTokens: 16 });
console.log('text:', text, usage.outputTokens);

process.stdout.write('stream: ');
for await (const piece of streamText({ model, prompt, maxOutputTokens: 16 }).textStream) {
  process.stdout.write(piece);
}
process.stdout.write('\n');
