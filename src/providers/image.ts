/** The image of a pool that names none. */
export const DEFAULT_IMAGE = 'ghcr.io/worker-vllm/worker-vllm:latest';
/**
 * The gigabytes of the container's disk where the candidate gives none: room for the image, and a model of some size.
 */
export const DEFAULT_DISK_GB = 60;
