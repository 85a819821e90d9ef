// Command kind is kind itself, built here so that go.sum pins it with everything else.
package main

import "sigs.k8s.io/kind/cmd/kind/app"

func main() { app.Main() }
