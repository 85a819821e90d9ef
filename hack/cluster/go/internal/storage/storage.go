// Package storage provisions PersistentVolumes as directories of one folder that every node mounts.
//
// Because every node sees the same folder, a volume has no node affinity and may be ReadWriteMany: a pod can
// move, and several pods on different nodes can share it. A volume is exactly one directory directly below
// the folder, named after its claim; nothing else is ever created or removed.
package storage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// Name is the provisioner that StorageClasses refer to.
const Name = "tfdist.dev/shared-folder"

// provisioner owns the directories below folder. The path is the same in its pod and on every node.
type provisioner struct{ folder string }

// Run provisions below the folder SHARED_FOLDER until ctx ends.
func Run(ctx context.Context) error {
	folder := os.Getenv("SHARED_FOLDER")
	if !filepath.IsAbs(folder) {
		return fmt.Errorf("SHARED_FOLDER must be an absolute path, not %q", folder)
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	controller.NewProvisionController(ctx, client, Name, &provisioner{folder: folder},
		controller.LeaderElection(false), // one replica, with the Recreate strategy
	).Run(ctx)
	return nil
}

// Provision makes the directory and describes it as a volume. A second call for the same claim, after a crash
// between the two, finds the directory and returns the same volume.
func (p *provisioner) Provision(
	_ context.Context, options controller.ProvisionOptions,
) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	claim := options.PVC
	if claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode != corev1.PersistentVolumeFilesystem {
		return nil, controller.ProvisioningFinished, fmt.Errorf("volumeMode %s is not supported, only Filesystem", *claim.Spec.VolumeMode)
	}
	if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
		return nil, controller.ProvisioningFinished, fmt.Errorf("accessMode ReadWriteOncePod needs a CSI driver; use ReadWriteOnce")
	}
	directory := filepath.Join(p.folder, directoryName(claim, options.PVName))
	if err := os.MkdirAll(directory, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	// Pods run as any user; the umask of this process must not decide.
	if err := os.Chmod(directory, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	return volume(options, directory), controller.ProvisioningFinished, nil
}

// Delete removes the directory of a volume, and rejects anything that is not directly below the folder.
func (p *provisioner) Delete(_ context.Context, released *corev1.PersistentVolume) error {
	source := released.Spec.HostPath
	if source == nil || filepath.Dir(filepath.Clean(source.Path)) != filepath.Clean(p.folder) {
		return fmt.Errorf("volume %s is not a directory directly below %s; remove it by hand", released.Name, p.folder)
	}
	return os.RemoveAll(source.Path)
}

// directoryName is unique by the volume's name, and readable by the claim's.
func directoryName(claim *corev1.PersistentVolumeClaim, volumeName string) string {
	return fmt.Sprintf("%s_%s_%s", volumeName, claim.Namespace, claim.Name)
}

func volume(options controller.ProvisionOptions, directory string) *corev1.PersistentVolume {
	kind := corev1.HostPathDirectory // fails where the folder is not mounted, instead of writing elsewhere
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   options.PVC.Spec.AccessModes,
			MountOptions:                  options.StorageClass.MountOptions,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: options.PVC.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: directory, Type: &kind},
			},
		},
	}
}
