// Command storage-provisioner is the provisioner alone, for clusters of a released node image.
package main

import (
	"context"
	"fmt"
	"os"

	"tfdist.dev/cluster/internal/storage"
)

func main() {
	if err := storage.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "storage-provisioner:", err)
		os.Exit(1)
	}
}
