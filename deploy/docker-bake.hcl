# Every image, for development and for a release:
#
#   BRANCH=$(git branch --show-current) docker buildx bake -f deploy/docker-bake.hcl              …:dev-feature-x
#   RELEASE_VERSION=1.2.0 docker buildx bake -f deploy/docker-bake.hcl --push                     …:1.2.0 and …:latest
#   docker buildx bake -f deploy/docker-bake.hcl fastdeploy                                       one of them
#   docker buildx bake -f deploy/docker-bake.hcl worker --set worker.args.MODEL_NAME=Qwen/Qwen3-0.6B
#   docker buildx bake -f deploy/docker-bake.hcl --print                                          what would be built

variable "IMAGE_NAME" {
  default = "ghcr.io/worker-vllm/worker-vllm"
}

variable "RELEASE_VERSION" {
  default = ""
}

variable "BRANCH" {
  default = "local"
}

variable "REVISION" {
  default = "unknown"
}

variable "VLLM_VERSION" {
  default = "0.32.0"
}

variable "SGLANG_VERSION" {
  default = "0.5.23"
}

variable "LLAMA_CPP_VERSION" {
  default = "b10434"
}

variable "FASTDEPLOY_VERSION" {
  default = "2.3.2"
}

# A branch may hold what a tag must not: feature/x becomes dev-feature-x. An empty tag is none.
function "tags" {
  params = [name]
  result = [
    RELEASE_VERSION == "" ? "${name}:dev-${regex_replace(BRANCH, "[^A-Za-z0-9_.-]+", "-")}" : "${name}:${RELEASE_VERSION}",
    RELEASE_VERSION == "" ? "" : "${name}:latest"
  ]
}

group "default" {
  targets = ["worker", "queue"]
}

target "_common" {
  platforms = ["linux/amd64"]
  args = {
    VERSION  = RELEASE_VERSION == "" ? "0.0.0-dev" : RELEASE_VERSION
    REVISION = REVISION
  }
}

target "worker" {
  inherits = ["_common"]
  tags     = tags(IMAGE_NAME)
  # Unset is fine: only gated models in the image need it.
  secret = ["id=HF_TOKEN,env=HF_TOKEN"]
  args = {
    VLLM_VERSION = VLLM_VERSION
  }
}

target "sglang" {
  inherits = ["_common"]
  tags     = tags("${IMAGE_NAME}-sglang")
  secret   = ["id=HF_TOKEN,env=HF_TOKEN"]
  args = {
    ENGINE         = "sglang"
    SGLANG_VERSION = SGLANG_VERSION
  }
}

target "llama-cpp" {
  inherits = ["_common"]
  tags     = tags("${IMAGE_NAME}-llama-cpp")
  args = {
    ENGINE            = "llama-cpp"
    LLAMA_CPP_VERSION = LLAMA_CPP_VERSION
  }
}

target "fastdeploy" {
  inherits = ["_common"]
  tags     = tags("${IMAGE_NAME}-fastdeploy")
  secret   = ["id=HF_TOKEN,env=HF_TOKEN"]
  args = {
    ENGINE             = "fastdeploy"
    FASTDEPLOY_VERSION = FASTDEPLOY_VERSION
  }
}

target "queue" {
  inherits   = ["_common"]
  dockerfile = "deploy/Dockerfile.queue"
  tags       = tags("${IMAGE_NAME}-queue")
}
