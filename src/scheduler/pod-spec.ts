import * as z from 'zod';

/**
 * `PodSpec` is what an operator adds to the pods of a fleet: a PodSpec of Kubernetes in which any field may be left
 * out, since it is merged into ours. In the objects that this file describes, a name that Kubernetes does not know is
 * refused, since an API server, and its client, would drop it silently. The API server judges the values of the fields,
 * and all other objects (probes, affinity, sources of volumes).
 */

const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

/** The value of a Kubernetes label, of a node or of anything else. */
export const LabelValue = z
  .string()
  .regex(
    LABEL_VALUE,
    'expected the value of a label of Kubernetes: up to 63 letters, digits, hyphens, underscores and dots, such as NVIDIA-L4',
  );

/**
 * Returns the schema of a Kubernetes object. @param names fields that may hold anything @param known the other fields
 * and their schemas
 */
function fields(names: string, known: Record<string, z.ZodType> = {}) {
  const loose = Object.fromEntries(names.split(/\s+/).map((name) => [name, z.unknown()]));
  return z.strictObject({ ...loose, ...known }).partial();
}

const SecurityContext = fields(
  `allowPrivilegeEscalation appArmorProfile capabilities privileged procMount readOnlyRootFilesystem runAsGroup
   runAsNonRoot runAsUser seLinuxOptions seccompProfile windowsOptions`,
);

const Container = fields(
  `args command image imagePullPolicy lifecycle livenessProbe name readinessProbe resizePolicy restartPolicy
   restartPolicyRules startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty workingDir`,
  {
    env: z.array(fields('name value valueFrom')),
    envFrom: z.array(fields('configMapRef prefix secretRef')),
    ports: z.array(fields('containerPort hostIP hostPort name protocol')),
    resources: fields('claims limits requests'),
    securityContext: SecurityContext,
    volumeDevices: z.array(fields('devicePath name')),
    volumeMounts: z.array(
      fields('mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr'),
    ),
  },
);

const Volume = fields(
  `awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI ephemeral fc flexVolume flocker
   gcePersistentDisk gitRepo glusterfs image iscsi name nfs photonPersistentDisk portworxVolume projected quobyte rbd
   scaleIO storageos vsphereVolume`,
  {
    emptyDir: fields('medium sizeLimit'),
    hostPath: fields('path type'),
    persistentVolumeClaim: fields('claimName readOnly'),
    secret: fields('defaultMode items optional secretName'),
  },
);

export const PodSpec = fields(
  `activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks ephemeralContainers
   hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride nodeName os overhead preemptionPolicy priority
   priorityClassName readinessGates resourceClaims restartPolicy runtimeClassName schedulerName schedulingGates
   schedulingGroup serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
   terminationGracePeriodSeconds`,
  {
    affinity: fields('nodeAffinity podAffinity podAntiAffinity'),
    containers: z.array(Container),
    hostAliases: z.array(fields('hostnames ip')),
    imagePullSecrets: z.array(fields('name')),
    initContainers: z.array(Container),
    nodeSelector: z.record(z.string(), LabelValue),
    resources: fields('claims limits requests'),
    securityContext: fields(
      `appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy seLinuxOptions
       seccompProfile supplementalGroups supplementalGroupsPolicy sysctls windowsOptions`,
    ),
    tolerations: z.array(fields('effect key operator tolerationSeconds value')),
    topologySpreadConstraints: z.array(
      fields(
        `labelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy topologyKey
         whenUnsatisfiable`,
      ),
    ),
    volumes: z.array(Volume),
  },
);
