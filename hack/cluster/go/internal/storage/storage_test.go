package storage

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func options(modes ...corev1.PersistentVolumeAccessMode) controller.ProvisionOptions {
	reclaim := corev1.PersistentVolumeReclaimDelete
	return controller.ProvisionOptions{
		StorageClass: &storagev1.StorageClass{ReclaimPolicy: &reclaim},
		PVName:       "pvc-1",
		PVC: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "claim"},
			Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: modes},
		},
	}
}

func TestAVolumeIsADirectoryThatEveryUserCanWrite(t *testing.T) {
	p := &provisioner{folder: t.TempDir()}
	made, _, err := p.Provision(context.Background(), options(corev1.ReadWriteMany))
	if err != nil {
		t.Fatal(err)
	}
	found, err := os.Stat(filepath.Join(p.folder, "pvc-1_space_claim"))
	if err != nil || !found.IsDir() || found.Mode().Perm() != 0o777 {
		t.Fatalf("directory: %v, %v", found, err)
	}
	if made.Spec.NodeAffinity != nil {
		t.Error("a shared volume must not be bound to a node")
	}
}

func TestProvisioningAgainAfterACrashKeepsTheDirectory(t *testing.T) {
	p := &provisioner{folder: t.TempDir()}
	first, _, _ := p.Provision(context.Background(), options(corev1.ReadWriteOnce))
	kept := filepath.Join(first.Spec.HostPath.Path, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second, _, err := p.Provision(context.Background(), options(corev1.ReadWriteOnce))
	if err != nil || second.Spec.HostPath.Path != first.Spec.HostPath.Path {
		t.Fatalf("second: %v, %v", second, err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

func TestUnsupportedClaimsAreRejected(t *testing.T) {
	p := &provisioner{folder: t.TempDir()}
	if _, _, err := p.Provision(context.Background(), options(corev1.ReadWriteOncePod)); err == nil {
		t.Error("ReadWriteOncePod was accepted")
	}
	block := corev1.PersistentVolumeBlock
	given := options(corev1.ReadWriteOnce)
	given.PVC.Spec.VolumeMode = &block
	if _, _, err := p.Provision(context.Background(), given); err == nil {
		t.Error("a block volume was accepted")
	}
}

func TestDeletingRemovesOnlyWhatIsDirectlyBelowTheFolder(t *testing.T) {
	p := &provisioner{folder: t.TempDir()}
	made, _, _ := p.Provision(context.Background(), options(corev1.ReadWriteMany))
	if err := p.Delete(context.Background(), made); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(p.folder); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	for _, path := range []string{p.folder, "/etc", filepath.Join(p.folder, "..", "x"), filepath.Join(p.folder, "a", "b")} {
		made.Spec.HostPath.Path = path
		if err := p.Delete(context.Background(), made); err == nil {
			t.Errorf("%s was removed", path)
		}
	}
}
