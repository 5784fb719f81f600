# Each plugin with the library that it needs.
# shellcheck shell=sh
install tanada-tools
tanada doctor >before || true
grep -q '^lacking *gfarm' before
install libtanada-gfarm libtanada-gluster libtanada-fabric libtanada-pmix libtanada-o2g
install libtanada-armci0 openmpi-bin
tanada doctor >after || true
cat after
for topic in gfarm gluster PMIx 'Global Arrays' launcher; do
  grep -q "^ok *$topic " after
done
grep -q '^lacking *o2g *FI_PROVIDER_PATH is not set' after
echo "doctor finds Gfarm, GlusterFS, PMIx, ARMCI, the provider and a launcher"
