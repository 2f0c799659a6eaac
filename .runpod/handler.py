# RunPod's Hub asks for this file. The image needs none: entrypoint.sh starts the worker, which takes jobs from RunPod's
# queue by itself.
raise SystemExit("The entry of this image is entrypoint.sh.")
