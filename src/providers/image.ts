/** Of a pool that names no image. */
export const DEFAULT_IMAGE = 'ghcr.io/worker-vllm/worker-vllm:latest';
/** Gigabytes of the container's disk where the candidate says nothing: the image, and a model of some size. */
export const DEFAULT_DISK_GB = 60;
