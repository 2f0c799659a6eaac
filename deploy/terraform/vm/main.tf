# The cloud-init of a machine with a queue, and Caddy with TLS in front of it. It names no provider: whatever makes the
# machine is given the output `user_data`. ../hetzner is an example.
terraform {
  required_version = ">= 1.5"
}

variable "domain" {
  description = "The name under which callers and workers reach the queue, over https and wss."
  type        = string
}

variable "tokens" {
  description = "Who may call, as QUEUE_TOKENS with hashes alone: [\"admin:sha256:…\", \"worker:sha256:…\"]. So no secret is in the state of Terraform."
  type        = list(string)

  validation {
    condition     = length(var.tokens) > 0 && alltrue([for token in var.tokens : can(regex("^[a-z+]+:sha256:[0-9a-f]{64}$", token))])
    error_message = "Each token is its scopes and its hash, such as submit+read:sha256:HEX, and there is at least one. printf %s \"$TOKEN\" | sha256sum makes a hash."
  }
}

variable "package_url" {
  description = "Where the machine downloads the package, worker-vllm-VERSION.tgz."
  type        = string
}

variable "package_sha256" {
  description = "The checksum of the package."
  type        = string
}

variable "node_url" {
  description = "Where the machine downloads Node. The default is for x86; the archive for ARM ends with linux-arm64.tar.xz."
  type        = string
  default     = "https://nodejs.org/dist/v24.21.0/node-v24.21.0-linux-x64.tar.xz"
}

variable "node_sha256" {
  description = "The checksum of Node's archive, as SHASUMS256.txt beside it has it."
  type        = string
}

variable "state_device" {
  description = "The block device of the volume for the state. It is formatted if it is blank, and mounted at /var/lib/worker-vllm. Empty: the machine's own disk."
  type        = string
  default     = ""
}

variable "settings" {
  description = "More variables of the queue (docs/settings.md)."
  type        = map(string)
  default     = {}
}

locals {
  units    = "${path.module}/../../systemd"
  settings = merge(var.settings, { QUEUE_TOKENS = join(",", var.tokens) })
  download = {
    NODE_URL       = var.node_url
    NODE_SHA256    = var.node_sha256
    PACKAGE_URL    = var.package_url
    PACKAGE_SHA256 = var.package_sha256
    STATE_DEVICE   = var.state_device
  }

  files = {
    "/etc/systemd/system/worker-vllm-queue.service" = file("${local.units}/worker-vllm-queue.service")
    "/etc/sysusers.d/worker-vllm.conf"              = file("${local.units}/sysusers.conf")
    "/etc/worker-vllm/queue.env"                    = join("", [for name, value in local.settings : "${name}=${value}\n"])
    "/etc/worker-vllm/install.env"                  = join("", [for name, value in local.download : "${name}='${value}'\n"])
    "/etc/worker-vllm/install.sh"                   = file("${path.module}/install.sh")
    # HTTP/3 and the challenge of port 80 are off: 443 is the only port that is open.
    "/etc/caddy/Caddyfile" = <<-END
      {
        auto_https disable_redirects
        servers {
          protocols h1 h2
        }
      }

      ${var.domain} {
        tls {
          issuer acme {
            disable_http_challenge
          }
        }
        reverse_proxy 127.0.0.1:8788
      }
    END
  }
}

output "user_data" {
  description = "The cloud-init of the machine, for Debian 12 or later and Ubuntu 24.04 or later."
  value = "#cloud-config\n${yamlencode({
    package_update = true
    packages       = ["ca-certificates", "caddy", "curl", "xz-utils"]
    # Deferred files are written once Caddy is installed, over its own.
    write_files = [for path, content in local.files : {
      path        = path
      content     = content
      permissions = startswith(path, "/etc/worker-vllm/") ? "0600" : "0644"
      defer       = true
    }]
    runcmd = [["bash", "/etc/worker-vllm/install.sh"]]
  })}"
}

output "url" {
  description = "What clients are given as the base of the API, with /v1 behind it."
  value       = "https://${var.domain}"
}
