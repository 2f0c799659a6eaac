# A queue on a machine of Hetzner Cloud, with a firewall that opens port 443 alone, and a volume for its state.
# The provider's key is in the environment: HCLOUD_TOKEN=… terraform apply -var-file=queue.tfvars
terraform {
  required_version = ">= 1.5"
  required_providers {
    hcloud = {
      source  = "hetznercloud/hcloud"
      version = "~> 1.49"
    }
  }
}

variable "domain" {
  description = "The name of the queue. Once the machine is there, point its A and AAAA records at the outputs of the same names."
  type        = string
}

variable "tokens" {
  description = "Scopes and hashes, as ../vm has them."
  type        = list(string)
}

variable "package_url" {
  type = string
}

variable "package_sha256" {
  type = string
}

variable "node_sha256" {
  type = string
}

variable "server_type" {
  description = "Two cores are enough for most fleets (docs/scaling.md)."
  type        = string
  default     = "cx23"
}

variable "location" {
  type    = string
  default = "fsn1"
}

variable "volume_gb" {
  type    = number
  default = 20
}

variable "ssh_from" {
  description = "Networks that may log in, such as [\"203.0.113.7/32\"]. Without any, port 22 is closed."
  type        = list(string)
  default     = []
}

variable "ssh_keys" {
  description = "Names of keys in the project of Hetzner."
  type        = list(string)
  default     = []
}

module "vm" {
  source         = "../vm"
  domain         = var.domain
  tokens         = var.tokens
  package_url    = var.package_url
  package_sha256 = var.package_sha256
  node_sha256    = var.node_sha256
  state_device   = hcloud_volume.state.linux_device
}

resource "hcloud_volume" "state" {
  name     = "worker-vllm-queue"
  size     = var.volume_gb
  location = var.location

  lifecycle {
    prevent_destroy = true
  }
}

resource "hcloud_firewall" "queue" {
  name = "worker-vllm-queue"

  rule {
    direction  = "in"
    protocol   = "tcp"
    port       = "443"
    source_ips = ["0.0.0.0/0", "::/0"]
  }

  dynamic "rule" {
    for_each = length(var.ssh_from) > 0 ? [var.ssh_from] : []
    content {
      direction  = "in"
      protocol   = "tcp"
      port       = "22"
      source_ips = rule.value
    }
  }
}

# A change of what the machine is made of, such as another package, makes it anew; the volume stays.
resource "hcloud_server" "queue" {
  name         = "worker-vllm-queue"
  server_type  = var.server_type
  image        = "debian-13"
  location     = var.location
  ssh_keys     = var.ssh_keys
  firewall_ids = [hcloud_firewall.queue.id]
  user_data    = module.vm.user_data
}

resource "hcloud_volume_attachment" "state" {
  volume_id = hcloud_volume.state.id
  server_id = hcloud_server.queue.id
  automount = false
}

output "a" {
  value = hcloud_server.queue.ipv4_address
}

output "aaaa" {
  value = hcloud_server.queue.ipv6_address
}

output "url" {
  value = module.vm.url
}
